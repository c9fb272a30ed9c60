import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, visit } from './chromium.ts';
import { row, rows, tab } from './task-rows.ts';

const shownTab = (page: Page) => page.locator('.tab[aria-current="page"] .tab-name').textContent();

/** Returns what the page shows and what its form fields and address say. */
async function shown(page: Page) {
  return {
    tab: await shownTab(page),
    q: await page.locator('#find').inputValue(),
    rows: await page.locator('.task-row .task-name').allTextContents(),
    address: new URL(page.url()).search,
  };
}

const focusedRow = (page: Page) =>
  page.evaluate(() => document.activeElement?.closest('[data-row]')?.querySelector('.task-name')?.textContent);

describeInBrowser('the address and the keys of the task board', () => {
  const services = onceForSuite(async () => {
    const { tasks } = await startServices();
    const ids: string[] = [];
    for (const action of ['third', 'second', 'first']) ids.unshift((await post(`${tasks}/tasks`, { action })).body.id);
    return { tasks, ids };
  });

  it("show what the form fields say after Back from another page, with and without the browser's page cache", async () => {
    const { tasks } = services();
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
      const { q, rows, address } = await shown(page);
      expect([q, rows, address]).to.deep.equal(['first', ['first'], '?q=first']);
      expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('sum');
      expect(await page.locator('#numbers').inputValue()).to.equal('4, 5');
      expect(await part(page, 'curl').textContent()).to.include('"action":"sum","data":{"numbers":[4,5]}');
    }
  });

  it('reproduce the view, follow Back and Forward, open a task whose id Find is given, move through the rows, and stay switched off', async () => {
    const { tasks, ids } = services();
    const page = await visit(tasks);
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
    expect(await shown(page)).to.deep.equal({
      tab: 'Completed',
      q: 'sec',
      rows: ['second'],
      address: `?q=sec&task=${ids[1]}`,
    });
    await page.goForward();
    await page.getByText('No task waits to be retried.').waitFor();
    expect(await shownTab(page)).to.equal('Retrying');
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
    for (const [key, search] of [
      ['8', 'view=schedules'],
      ['9', 'view=limits'],
    ] as const) {
      await page.keyboard.press('n');
      expect(await page.evaluate(() => document.activeElement?.id)).to.equal('text');
      await page.locator('#text').blur();
      await page.keyboard.press('5');
      await page.waitForURL(`${tasks}/?state=retrying`);
      await page.keyboard.press(key);
      await page.waitForURL(`${tasks}/?${search}`);
    }
    await page.keyboard.press('5');
    await page.waitForURL(`${tasks}/?state=retrying`);
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keys' });
    await help.waitFor();
    const keys = await help.locator('kbd').allTextContents();
    expect(keys).to.include.members(['n', '/', 'j', 'k', 'Enter', 'x', 'r', '?']);
    await page.keyboard.press('1');
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'hidden' });
    expect(page.url()).to.equal(`${tasks}/?state=retrying`);

    await page.goto(tasks);
    await page.getByRole('button', { name: 'Keys' }).click();
    await page.getByLabel('Keys of one character').uncheck();
    await page.getByRole('button', { name: 'Close' }).click();
    await page.reload();
    await rows(page).first().waitFor();
    await page.keyboard.press('3');
    await page.keyboard.press('j');
    expect(page.url()).to.equal(`${tasks}/`);
    expect(await focusedRow(page)).to.equal(undefined);
    await part(page, 'help-button').click();
    await page.getByLabel('Keys of one character').check();
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    expect(await focusedRow(page)).to.equal('first');
  });
});
