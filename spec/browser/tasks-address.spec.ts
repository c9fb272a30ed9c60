import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, reaches, visit } from './chromium.ts';
import { row, tab } from './task-rows.ts';

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

describeInBrowser('the address of the task board', () => {
  const services = onceForSuite(async () => {
    const { tasks } = await startServices();
    const ids: string[] = [];
    for (const action of ['alpha', 'beta']) ids.push((await post(`${tasks}/tasks`, { action })).body.id);
    return { tasks, ids };
  });

  it('reproduces the view, and follows Back and Forward', async () => {
    const { tasks, ids } = services();
    await visit(tasks, {}, async (page) => {
      await row(page, 'alpha').waitFor();
      await page.locator('#find').fill('alp');
      await page.waitForURL(`${tasks}/?q=alp`);
      await row(page, 'beta').waitFor({ state: 'detached' });
      await row(page, 'alpha').click();
      await page.waitForURL(`${tasks}/?q=alp&task=${ids[0]}`);
      await tab(page, 'Retrying').click();
      await page.waitForURL(`${tasks}/?state=retrying`);
      expect(await page.locator('#find').inputValue()).to.equal('');

      await page.goBack();
      await row(page, 'alpha').and(page.locator('[data-inspected]')).waitFor();
      expect(await shown(page)).to.deep.equal({
        tab: 'Completed',
        q: 'alp',
        rows: ['alpha'],
        address: `?q=alp&task=${ids[0]}`,
      });
      await page.goForward();
      await page.getByText('No task waits to be retried.').waitFor();
      expect(await shownTab(page)).to.equal('Retrying');
      await page.goBack();
      await page.reload();
      await row(page, 'alpha').and(page.locator('[data-inspected]')).waitFor();
      expect((await shown(page)).q).to.equal('alp');
    });
  });

  it('opens a task by its id, which Find takes too', async () => {
    const { tasks, ids } = services();
    const [, id = ''] = ids;
    await visit(`${tasks}/?state=retrying&task=${id}`, {}, async (page) => {
      await reaches(page, 'live');
      expect(await shownTab(page)).to.equal('Retrying');
      await page.goto(`${tasks}/?q=x`);
      await page.locator('#find').fill(` ${id.toUpperCase()} `);
      await page.waitForURL(`${tasks}/?task=${id}`);
      expect(await page.locator('#find').inputValue()).to.equal('');
      await row(page, 'beta').and(page.locator('[data-inspected]')).waitFor();
    });
  });

  for (const cache of ['with', 'without'] as const) {
    it(`shows what the form fields say after Back from another page, ${cache} the browser's page cache`, async () => {
      const { tasks } = services();
      const prepare = async (page: Page) => {
        if (cache === 'without') await page.addInitScript(() => addEventListener('unload', () => {}));
      };
      // Chromium reports that the listener keeps the page out of its cache.
      await visit(`${tasks}/?q=beta`, { prepare, tolerated: /unload/ }, async (page) => {
        await row(page, 'beta').waitFor();
        await page.getByLabel('sum').check();
        await page.getByLabel('Numbers').fill('4, 5');
        await page.evaluate(() => Object.assign(window, { isSamePage: true }));
        await page.goto(`${tasks}/queue`);
        // A page from the cache has no load event.
        await page.goBack({ waitUntil: 'commit' });
        await row(page, 'beta').waitFor();
        expect(await page.evaluate(() => 'isSamePage' in window)).to.equal(cache === 'with');
        const { q, rows, address } = await shown(page);
        expect([q, rows, address]).to.deep.equal(['beta', ['beta'], '?q=beta']);
        expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('sum');
        expect(await page.locator('#numbers').inputValue()).to.equal('4, 5');
        expect(await part(page, 'curl').textContent()).to.include('"action":"sum","data":{"numbers":[4,5]}');
      });
    });
  }
});
