import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post } from '../support/program.ts';
import { changes, describeInBrowser, part, reaches, visit } from './chromium.ts';
import { actionChoice, ownTask, queueButton, startWithHandlers } from './task-rows.ts';

const HANDLERS = `
import { existsSync } from 'node:fs';
export default {
  declined() { throw new PermanentError('card declined'); },
  found({ path }) {
    if (!existsSync(path)) throw new PermanentError('no such file');
    return 'found';
  },
  soon: { maxAttempts: 2, handler: () => { throw new RetryAfter(90_000, 'a little later'); } },
};`;

async function queue(page: Page, action: string, json: string): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await actionChoice(page).selectOption(action);
  await page.locator('#json').fill(json);
  await queueButton(page).click();
}

describeInBrowser('the tasks queued from the board', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS));

  it('offer to edit a task that failed for good in the form of its action, and not to try it again unchanged', async () => {
    await visit(services().tasks, {}, async (page) => {
      await queue(page, 'declined', '{"amount": 12}');
      await ownTask(page, 'failed').filter({ hasText: 'card declined' }).waitFor();
      expect(await page.getByRole('button', { name: 'Try again' }).count()).to.equal(0);
      await page.getByLabel('uppercase').check();
      await page.getByRole('button', { name: 'Edit and resubmit' }).click();
      expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('other');
      expect(await page.locator('#choice').inputValue()).to.equal('declined');
      expect(JSON.parse(await page.locator('#json').inputValue())).to.deep.equal({ amount: 12 });
      expect(await part(page, 'curl').textContent()).to.include('"amount":12');

      await page.getByLabel('sum').check();
      await page.getByLabel('Numbers').fill('1e308 1e308');
      await queueButton(page).click();
      const sum = ownTask(page, 'failed').filter({ hasText: 'too large' });
      await sum.waitFor();
      await page.getByLabel('uppercase').check();
      await sum.getByRole('button', { name: 'Edit and resubmit' }).click();
      await page.getByLabel('Numbers').fill('1, 2');
      await queueButton(page).click();
      await ownTask(page, 'completed').filter({ hasText: '3' }).waitFor();
    });
  });

  it('follow one that another client redrives, count down to the next attempt with the reason of the last, and are tried again on request', async () => {
    const path = join(await temporaryFolder(), 'file');
    const { tasks } = services();
    await visit(tasks, {}, async (page) => {
      await queue(page, 'found', JSON.stringify({ path }));
      const missing = ownTask(page, 'failed').filter({ hasText: 'no such file' });
      await missing.waitFor();
      const id = await missing.getAttribute('data-id');
      await writeFile(path, '');
      await post(`${tasks}/dead-letters/${id}/retry`, {});
      await ownTask(page, 'completed').filter({ hasText: 'found' }).waitFor();

      await queue(page, 'soon', '{}');
      const retrying = ownTask(page, 'retrying').filter({ hasText: 'a little later' });
      await retrying.waitFor();
      const state = () => retrying.locator('[data-part="state"]').textContent();
      const first = await state();
      expect(first).to.match(/^again in \d\d s$/);
      await changes(state, first);
      await post(`${tasks}/tasks/${await retrying.getAttribute('data-id')}/run`, {});
      await ownTask(page, 'failed').waitFor();
      await page.route('**/redrive', (route) => route.fulfill({ json: { count: 0, remaining: 0 } }), { times: 1 });
      await page.getByRole('button', { name: 'Try again' }).click();
      await page.getByText('Not redriven: the service no longer has this task among the failed ones.').waitFor();
      const redriven = page.waitForResponse((response) => response.url().endsWith('/redrive'));
      await page.getByRole('button', { name: 'Try again' }).click();
      expect((await (await redriven).json()).count).to.equal(1);
      await retrying.waitFor();
    });
  });
});
