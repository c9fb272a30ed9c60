import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';
import { describeInBrowser, part, partShows, visit } from './chromium.ts';
import { row, rows, startWithHandlers, tab, untilRows } from './task-rows.ts';

const HANDLERS = `
export default {
  hold: (_, { signal, progress }) => new Promise((_, reject) => {
    progress(0.256, 'row 256 of 1000');
    signal.addEventListener('abort', () => reject(signal.reason));
  }),
  late() { throw new RetryAfter(3_600_000, 'much later'); },
  soon() { throw new RetryAfter(90_000, 'a little later'); },
};`;

const count = (page: Page, state: string) => part(page, `count-${state}`);

/** Queues tasks and returns their ids. Waits for the row of the last. */
async function complete(tasks: string, actions: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const action of actions) ids.push((await post(`${tasks}/tasks`, { action })).body.id);
  await untilTask(tasks, ids.at(-1) as string);
  return ids;
}

const numbered = (length: number, name = 'action') => Array.from({ length }, (_, index) => `${name}-${index}`);

describeInBrowser('the lists of the task board', () => {
  const services = onceForSuite(startServices);

  it('have a tab for each state with the number of tasks, and columns that fit', async () => {
    // The tasks that hold the threads must not be ended by the timeout, however slow the machine is.
    const { tasks } = await startWithHandlers(HANDLERS, {
      TASK_UNKNOWN_ACTIONS: 'process',
      TASK_TIMEOUT_MS: '3600000',
    });
    await complete(tasks, ['first']);
    await post(`${tasks}/tasks`, { action: 'late' });
    await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1e308, 1e308] } });
    const page = await visit(tasks);
    await count(page, 'retrying').filter({ hasText: '1' }).waitFor();
    const held: string[] = [];
    for (let i = 0; i < 8; i++) held.push((await post(`${tasks}/tasks`, { action: 'hold', data: { i } })).body.id);
    await count(page, 'running').filter({ hasText: /^2$/ }).waitFor();
    await partShows(page, 'more-running', '3 next');
    await count(page, 'queued').filter({ hasText: '3' }).waitFor();
    expect(await count(page, 'completed').textContent()).to.equal('1');
    expect(await count(page, 'failed').textContent()).to.equal('1');
    for (const [name, figure] of Object.entries({ backlog: '9', running: '2', retrying: '1', dead: '1' }))
      await partShows(page, `health-${name}`, new RegExp(`^${figure}\\b`));
    expect(await page.title()).to.equal('Completed · Tasks');
    await page.getByText('Actions and workers').click();
    const workers = part(page, 'workers').locator('tr', { hasText: 'hold' });
    await workers.nth(1).waitFor();
    expect(await workers.count()).to.equal(2);

    await tab(page, 'Queued').click();
    await untilRows(page, 3);
    expect(await rows(page).first().textContent()).to.match(/hold\s*\{"i":5\}/);
    await tab(page, 'Running').click();
    await row(page, 'hold').filter({ hasText: '25 % row 256 of 1000' }).first().waitFor();
    await untilRows(page, 5);

    await tab(page, 'Retrying').click();
    for (const id of held) await request(`${tasks}/tasks/${id}`, { method: 'DELETE' });
    await post(`${tasks}/tasks`, { action: 'soon' });
    await untilRows(page, 2);
    expect(await rows(page).locator('.task-name').allTextContents()).to.deep.equal(['soon', 'late']);
    expect(await row(page, 'soon').locator('.task-time').textContent()).to.match(/^in \d\d s$/);
    expect(await row(page, 'late').locator('.task-time').textContent()).to.equal('in 60 min');
    expect(await row(page, 'late').textContent()).to.include('much later');
    expect(await page.title()).to.equal('Retrying · Tasks');
  });

  it('show bidirectional controls as escapes, stay still while they are used or paused, and open the row that a click was aimed at', async () => {
    const { tasks } = services();
    const data = { text: 'file \u202Egpj.exe' };
    await post(`${tasks}/tasks`, { action: 'uppercase', data });
    const { id } = (await post(`${tasks}/tasks`, { action: 'א\u202Eabc', data })).body;
    await untilTask(tasks, id);
    const page = await visit(tasks, { width: 1600 });
    const actions = () => rows(page).locator('.task-name').allTextContents();
    const unseen = (text: string) => partShows(page, 'unseen', text);
    const shown = await row(page, 'א\\u202eabc').textContent();
    expect(shown).to.include('{"text":"file \\u202egpj.exe"}');
    expect(await row(page, 'uppercase').textContent()).to.include('FILE \\u202eGPJ.EXE');
    expect(await page.evaluate(() => /[\u202a-\u202e]/.test(document.body.innerText))).to.equal(false);

    const before = await actions();
    await rows(page).first().hover();
    await complete(tasks, ['while-hovering']);
    await unseen('1 new – show');
    expect(await actions()).to.deep.equal(before);
    await page.mouse.move(0, 0);
    await row(page, 'while-hovering').waitFor();

    await rows(page)
      .first()
      .evaluate((element) => getSelection()?.selectAllChildren(element));
    await complete(tasks, ['while-selecting']);
    await unseen('1 new – show');
    await page.evaluate(() => getSelection()?.empty());
    await row(page, 'while-selecting').waitFor();

    await page.getByRole('button', { name: 'Pause list' }).click();
    await page.mouse.move(0, 0);
    const paused = await actions();
    await complete(tasks, ['while-paused', 'while-paused-too']);
    await unseen('2 new – show');
    expect(await actions()).to.deep.equal(paused);
    await page.getByRole('button', { name: 'Resume list' }).click();
    await row(page, 'while-paused-too').waitFor();

    // The page moves between the press and the release of the button.
    await rows(page).nth(3).locator('.task-name').hover();
    await page.mouse.down();
    const aimedAt = await page.locator('.task-row:active').getAttribute('data-row');
    await page.evaluate(() => {
      (document.querySelector('.tabs') as HTMLElement).style.marginTop = '60px';
    });
    await page.mouse.up();
    await page.waitForURL(new RegExp(`task=${aimedAt}`));
  });

  it('say why they are empty, find text, ids and keys on the service, list the tasks of one action or time, keep the row that is open, and go back to older ones', async () => {
    const { tasks } = await startServices();
    const page = await visit(tasks);
    for (const [name, title, path] of [
      ['Queued', 'No task is waiting.', '/tasks -d'],
      ['Running', 'No task is running.', '/queue/tasks?state=running'],
      ['Retrying', 'No task waits to be retried.', '/queue/tasks?state=retrying'],
      ['Completed', 'No task has been completed yet.', '/tasks -d'],
    ] as const) {
      await tab(page, name).click();
      await page.getByText(title).waitFor();
      expect(await part(page, 'empty-curl').textContent()).to.include(`${tasks}${path}`);
    }
    await page.locator('#find').fill('needle');
    await page.waitForURL(`${tasks}/?q=needle`);
    await page.getByText('No completed task matches.').waitFor();
    await part(page, 'show-all').click();
    await page.waitForURL(`${tasks}/`);
    const command = (await part(page, 'empty-curl').textContent()) ?? '';
    const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${command}`], { encoding: 'utf8' });
    const [url = '', flag, body = ''] = shown.split('\0');
    expect(flag).to.equal('-d');
    await request(url, { method: 'POST', body });
    await row(page, 'uppercase').waitFor();
    expect(await part(page, 'empty').isVisible()).to.equal(false);

    await row(page, 'uppercase').locator('.task-detail').click();
    await page.waitForURL(/\?task=/);
    await page.mouse.move(0, 0);
    const { id } = (await post(`${tasks}/tasks`, { action: 'needle', limit_key: 'acme' })).body;
    await post(`${tasks}/tasks/batch`, { tasks: numbered(229).map((action) => ({ action })) });
    await partShows(page, 'list-count', 'Newest 100 tasks');
    await row(page, 'uppercase').and(page.locator('[data-inspected]')).waitFor();
    await page.keyboard.press('Escape');
    for (const text of ['NEEDLE', id.slice(0, 13), 'key:acme needle', 'key:"acme"']) {
      await page.locator('#find').fill(text);
      await untilRows(page, 1);
      await row(page, 'needle').waitFor();
      expect(await part(page, 'list-count').textContent(), text).to.equal('1 task');
    }
    // No id begins like this, so it is text.
    await page.locator('#find').fill('id:needle');
    await page.getByText('No completed task matches.').waitFor();
    await page.goto(`${tasks}/?q=${'x'.repeat(300)}`);
    await page.getByText('No completed task matches.').waitFor();
    await page.locator('#find').fill('ACTION-1');
    await untilRows(page, 100);
    expect(await part(page, 'list-count').textContent()).to.equal('100 of 111 tasks');
    await page.goto(`${tasks}/?action=needle&last=1h`);
    await row(page, 'needle').waitFor();
    await untilRows(page, 1);
    expect(await page.getByLabel('1h').isChecked()).to.equal(true);
    await page.getByLabel('Any time').check();
    await page.waitForURL(`${tasks}/?action=needle`);
    await page.getByRole('button', { name: 'Action needle' }).click();
    await untilRows(page, 100);

    const older = page.getByRole('button', { name: 'Older tasks' });
    const held = Promise.withResolvers<void>();
    await page.route('**/tasks/search?*cursor=*', (route) => held.promise.then(() => route.continue()));
    await older.click();
    await tab(page, 'Queued').click();
    await page.getByText('No task is waiting.').waitFor();
    const texts = await part(page, 'older-status').evaluateHandle((status) => {
      const seen: string[] = [];
      new MutationObserver(() => seen.push(status.textContent)).observe(status, { childList: true });
      return seen;
    });
    const arrived = page.waitForResponse('**/tasks/search?*cursor=*');
    held.resolve();
    await (await arrived).finished();
    await tab(page, 'Completed').click();
    await partShows(page, 'list-count', 'Newest 200 tasks');
    const announced = await texts.evaluate((seen) => seen.filter((text) => text !== ''));
    expect(announced, 'while another list is open').to.deep.equal([]);
    await older.click();
    await partShows(page, 'list-count', '231 tasks');
    await page.getByText('These are all.').waitFor();
    expect(await older.isVisible()).to.equal(false);
    await page.mouse.move(0, 0);
    await complete(tasks, numbered(80, 'later'));
    await partShows(page, 'list-count', '311 tasks');
    await page.evaluate(() => scrollTo(0, 0));
    await row(page, 'uppercase').waitFor({ state: 'detached' });

    // A long list shows the rows near the visible ones.
    const height = () => part(page, 'task-rows').evaluate((body) => body.getBoundingClientRect().height);
    const before = await height();
    await part(page, 'older-status').scrollIntoViewIfNeeded();
    await rows(page).last().filter({ hasText: 'uppercase' }).waitFor();
    expect(await rows(page).count()).to.be.at.most(200);
    expect(await height()).to.be.closeTo(before, 200);
  });
});
