import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { curlArguments } from '../support/command.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { part, partShows, reaches } from './page.ts';
import { ownTask, partsShow, row, rows, startWithHandlers, tab, texts, untilRows } from './task-rows.ts';

const HANDLERS = `
export default {
  hold: (_, { signal, progress }) => new Promise((_, reject) => {
    progress(0.256, 'row 256 of 1000');
    signal.addEventListener('abort', () => reject(signal.reason));
  }),
  late() { throw new RetryAfter(3_600_000, 'much later'); },
  soon() { throw new RetryAfter(90_000, 'a little later'); },
};`;

const names = (page: Page) => rows(page).locator('.task-name').allTextContents();
const focusedRow = (page: Page) =>
  page.evaluate(() => document.activeElement?.closest('[data-row]')?.querySelector('.task-name')?.textContent);

async function complete(tasks: string, actions: string[]): Promise<string> {
  const { body } = await post(`${tasks}/tasks/batch`, { tasks: actions.map((action) => ({ action })) });
  const { id } = body.tasks.at(-1);
  await untilTask(tasks, id);
  return id;
}

const numbered = (length: number, name = 'action') => Array.from({ length }, (_, index) => `${name}-${index}`);

describeInBrowser('the lists of the task board', () => {
  const services = onceForSuite(startServices);

  it('show what others queue as it happens, in visible characters, but stand still while the user is at a row by pointer, keyboard or selection, or has paused them', async () => {
    const { tasks } = services();
    const page = await visit(tasks);
    await reaches(page, 'live');
    for (const action of ['one', 'two', 'three']) {
      await post(`${tasks}/tasks`, { action });
      await row(page, action).waitFor();
    }
    await row(page, 'three').locator('a').focus();
    await post(`${tasks}/tasks`, { action: 'newer' });
    await page.getByRole('button', { name: '1 new – show' }).waitFor();
    await page.keyboard.press('u');
    await row(page, 'newer').waitFor();
    expect(await page.locator(':focus').textContent()).to.equal('three');

    for (const key of ['n', 'Shift+Tab', 'ArrowRight', 'Tab']) await page.keyboard.press(key);
    await page.keyboard.type(', 4');
    await page.keyboard.press('Control+Enter');
    await ownTask(page, 'completed').waitFor();
    await rows(page).first().filter({ hasText: 'sum' }).waitFor();
    await page.locator('#find').press('Tab');
    expect(await page.locator(':focus').getAttribute('name')).to.equal('last');
    for (const name of ['Pause list', 'sum']) {
      await page.keyboard.press('Tab');
      expect(await texts(page.locator(':focus'))).to.deep.equal([name]);
    }
    await page.keyboard.press('Enter');
    await page.waitForURL(/\?task=/);
    await page.keyboard.press('Escape');
    await page.locator('#find').focus();

    const data = { text: 'file \u202Egpj.exe' };
    await post(`${tasks}/tasks`, { action: 'uppercase', data });
    const { id } = (await post(`${tasks}/tasks`, { action: 'א\u202Eabc', data })).body;
    await untilTask(tasks, id);
    const unseen = (text: string) => partShows(page, 'unseen', text);
    const shown = await row(page, 'א\\u202eabc').textContent();
    expect(shown).to.include('{"text":"file \\u202egpj.exe"}');
    expect(await row(page, 'uppercase').textContent()).to.include('FILE \\u202eGPJ.EXE');
    expect(await page.evaluate(() => /[\u202a-\u202e]/.test(document.body.innerText))).to.equal(false);

    const before = await names(page);
    await rows(page).first().hover();
    await complete(tasks, ['while-hovering']);
    await unseen('1 new – show');
    expect(await names(page)).to.deep.equal(before);
    await page.mouse.move(0, 0);
    await row(page, 'while-hovering').waitFor();

    await page.evaluate(() => getSelection()?.selectAllChildren(document.querySelector('.task-row') as Element));
    await complete(tasks, ['while-selecting']);
    await unseen('1 new – show');
    await page.evaluate(() => getSelection()?.empty());
    await row(page, 'while-selecting').waitFor();

    await page.getByRole('button', { name: 'Pause list' }).click();
    await page.mouse.move(0, 0);
    const paused = await names(page);
    await complete(tasks, ['while-paused', 'while-paused-too']);
    await unseen('2 new – show');
    expect(await names(page)).to.deep.equal(paused);
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

  it('have a tab for each state with the number of tasks, and columns that fit', async () => {
    // The tasks that hold the threads must not be ended by the timeout, however slow the machine is.
    const env = { TASK_UNKNOWN_ACTIONS: 'process', TASK_TIMEOUT_MS: '3600000' };
    const { tasks } = await startWithHandlers(HANDLERS, env);
    await complete(tasks, ['first']);
    await post(`${tasks}/tasks`, { action: 'late' });
    await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1e308, 1e308] } });
    const page = await visit(tasks);
    await partsShow(page, { 'count-retrying': '1' });
    const held: string[] = [];
    for (let i = 0; i < 8; i++) held.push((await post(`${tasks}/tasks`, { action: 'hold', data: { i } })).body.id);
    await partShows(page, 'more-running', '3 next');
    await partsShow(page, { 'count-running': '2', 'count-queued': '3', 'count-completed': '1', 'count-failed': '1' });
    for (const [name, figure] of Object.entries({ backlog: '9', running: '2', retrying: '1', dead: '1' }))
      await partShows(page, `health-${name}`, new RegExp(`^${figure}\\b`));
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
    expect(await names(page)).to.deep.equal(['soon', 'late']);
    expect(await row(page, 'soon').locator('.task-time').textContent()).to.match(/^in \d\d s$/);
    expect(await row(page, 'late').locator('.task-time').textContent()).to.equal('in 60 min');
    expect(await row(page, 'late').textContent()).to.include('much later');
    expect(await page.title()).to.equal('Retrying · Tasks');
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
    const [url = '', flag, body = ''] = curlArguments(command);
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
    // The rows stand still for a moment after the pointer has left them, unlike the number above them.
    await page.locator('.tasks[aria-rowcount="312"]').waitFor();
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

async function shown(page: Page) {
  return {
    tab: await page.locator('.tab[aria-current="page"] .tab-name').textContent(),
    q: await page.locator('#find').inputValue(),
    rows: await names(page),
    address: new URL(page.url()).search,
  };
}

describeInBrowser('the address and the keys of the task board', () => {
  it("lead to the same view again by Back and Forward, with and without the browser's page cache, and to each row and list by keys until these are switched off", async () => {
    const { tasks } = await startServices();
    const ids: string[] = [];
    for (const action of ['third', 'second', 'first']) ids.unshift(await complete(tasks, [action]));
    // Chromium reports that the listener keeps the page out of its cache.
    const page = await visit(`${tasks}/?q=first`, { tolerated: /unload/ });
    for (const isCached of [true, false]) {
      await row(page, 'first').waitFor();
      if (!isCached) await page.evaluate(() => addEventListener('unload', () => {}));
      await page.getByLabel('sum').check();
      await page.getByLabel('Numbers').fill('4, 5');
      await page.evaluate(() => Object.assign(window, { isSamePage: true }));
      await page.goto(`${tasks}/queue`);
      // A page from the cache has no load event.
      await page.goBack({ waitUntil: 'commit' });
      await row(page, 'first').waitFor();
      expect(await page.evaluate(() => 'isSamePage' in window)).to.equal(isCached);
      expect(await shown(page)).to.deep.equal({ tab: 'Completed', q: 'first', rows: ['first'], address: '?q=first' });
      expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('sum');
      expect(await page.locator('#numbers').inputValue()).to.equal('4, 5');
      expect(await part(page, 'curl').textContent()).to.include('"action":"sum","data":{"numbers":[4,5]}');
    }

    await page.goto(tasks);
    await row(page, 'second').waitFor();
    await page.locator('#find').fill('sec');
    await page.waitForURL(`${tasks}/?q=sec`);
    await row(page, 'first').waitFor({ state: 'detached' });
    await row(page, 'second').click();
    await page.waitForURL(`${tasks}/?q=sec&task=${ids[1]}`);
    await tab(page, 'Retrying').click();
    await page.waitForURL(`${tasks}/?state=retrying`);
    expect(await page.locator('#find').inputValue()).to.equal('');

    await page.goBack();
    await row(page, 'second').and(page.locator('[data-inspected]')).waitFor();
    const address = `?q=sec&task=${ids[1]}`;
    expect(await shown(page)).to.deep.equal({ tab: 'Completed', q: 'sec', rows: ['second'], address });
    await page.goForward();
    await page.getByText('No task waits to be retried.').waitFor();
    expect((await shown(page)).tab).to.equal('Retrying');
    await page.goBack();
    await page.reload();
    await row(page, 'second').and(page.locator('[data-inspected]')).waitFor();
    expect((await shown(page)).q).to.equal('sec');

    const [id = ''] = ids;
    await page.locator('#find').fill(` ${id.toUpperCase()} `);
    await page.waitForURL(`${tasks}/?task=${id}`);
    expect(await page.locator('#find').inputValue()).to.equal('');
    await row(page, 'first').and(page.locator('[data-inspected]')).waitFor();

    await page.goto(tasks);
    await rows(page).nth(2).waitFor();
    await page.keyboard.press('j');
    expect(await focusedRow(page)).to.equal('first');
    for (const key of 'jjj') await page.keyboard.press(key);
    expect(await focusedRow(page)).to.equal('third');
    await page.keyboard.press('k');
    expect(await focusedRow(page)).to.equal('second');
    await page.keyboard.press('Enter');
    await page.waitForURL(`${tasks}/?task=${ids[1]}`);
    await page.keyboard.press('Escape');

    await page.keyboard.press('/');
    await page.keyboard.type('/n?3');
    expect(await page.locator('#find').inputValue()).to.equal('/n?3');
    await page.locator('#find').fill('');
    await page.locator('#find').blur();
    for (const [key, search] of Object.entries({ 5: 'state=retrying', 8: 'view=schedules', 9: 'view=limits' })) {
      await page.keyboard.press(key);
      await page.waitForURL(`${tasks}/?${search}`);
      await page.keyboard.press('n');
      expect(await page.evaluate(() => document.activeElement?.id)).to.equal('text');
      await page.locator('#text').blur();
    }
    const beforeHelp = page.url();
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keys' });
    await help.waitFor();
    const keys = await help.locator('kbd').allTextContents();
    expect(keys).to.include.members(['n', '/', 'j', 'k', 'Enter', 'x', 'r', '?']);
    await page.keyboard.press('1');
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'hidden' });
    expect(page.url()).to.equal(beforeHelp);

    await page.goto(tasks);
    await page.getByRole('button', { name: 'Keys' }).click();
    await page.getByLabel('Keys of one character').uncheck();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.reload();
    await rows(page).first().waitFor();
    for (const key of '3j') await page.keyboard.press(key);
    expect(page.url()).to.equal(`${tasks}/`);
    expect(await focusedRow(page)).to.equal(undefined);
    await part(page, 'help-button').click();
    await page.getByLabel('Keys of one character').check();
    for (const key of ['Escape', 'j']) await page.keyboard.press(key);
    expect(await focusedRow(page)).to.equal('first');
  });
});
