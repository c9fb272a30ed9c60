import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { describeInBrowser, part, visit } from './chromium.ts';
import { rows } from './task-rows.ts';

const focusedRow = (page: Page) =>
  page.evaluate(() => document.activeElement?.closest('[data-row]')?.querySelector('.task-name')?.textContent);

describeInBrowser('the keys of the task board', () => {
  const services = onceForSuite(async () => {
    const { tasks } = await startServices();
    const ids: string[] = [];
    for (const action of ['third', 'second', 'first']) ids.unshift((await post(`${tasks}/tasks`, { action })).body.id);
    return { tasks, ids };
  });

  it('move through the rows, reach Find, the form, the tabs and the help, but type in fields', async () => {
    const { tasks, ids } = services();
    await visit(tasks, {}, async (page) => {
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
    });
  });

  it('can be switched off, and stay so', async () => {
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
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
});
