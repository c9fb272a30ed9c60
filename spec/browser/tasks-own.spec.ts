import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { changes, describeInBrowser, part, partShows, reaches, visit } from './chromium.ts';
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
  steps: async (_, { signal, progress }) => {
    for (let step = 0; !signal.aborted; step++) {
      progress(1 - 1 / (step + 1), 'step ' + step);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    throw signal.reason;
  },
  stubborn: () => new Promise(() => {}),
};`;

async function queue(page: Page, action: string, json = '{}'): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await actionChoice(page).selectOption(action);
  await page.locator('#json').fill(json);
  await queueButton(page).click();
}

describeInBrowser('the tasks queued from the board', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS, { TASK_CANCEL_GRACE_MS: '3000' }));

  it('show their progress by events, and are cancelled here or elsewhere unless they have finished', async () => {
    const { tasks } = services();
    // A request for a task that is being cancelled may be answered with 404, and one for a finished one with 409.
    const page = await visit(tasks, { tolerated: /status of 40[49]/ });
    const cancelButton = page.getByRole('button', { name: 'Cancel' });
    const cancelled = (action: string) => ownTask(page, 'cancelled').filter({ hasText: action });
    const cancel = async () => {
      const answer = page.waitForResponse((response) => response.request().method() === 'DELETE');
      await cancelButton.focus();
      await page.keyboard.press('Enter');
      return (await answer).status();
    };
    let requests = 0;
    page.on('request', (request) => {
      if (/\/tasks\/(search\?|[\da-f-]{36}$)/.test(request.url())) requests += 1;
    });
    await queue(page, 'steps');
    // An answer shows at most one note, so the others came from events.
    const notes = new Set<string | null>();
    await eventually(
      async () => notes.add(await part(page, 'progress-note').textContent()).size - requests,
      (others) => others >= 8,
    );
    await ownTask(page, 'running')
      .getByText(/^\d\d %$/)
      .waitFor();
    const progress = page.getByRole('progressbar', { name: 'Progress of steps' });
    expect(Number(await progress.getAttribute('value'))).to.be.within(0.8, 1);
    expect(await cancel()).to.equal(202);
    await cancelled('steps').waitFor();
    await partShows(page, 'own-status', 'Cancelled steps');
    expect(await page.getByRole('progressbar').count()).to.equal(0);
    expect(await cancelButton.count()).to.equal(0);

    await queue(page, 'soon');
    await ownTask(page, 'retrying').waitFor();
    expect(await cancel()).to.equal(204);
    await cancelled('soon').waitFor();
    expect(await page.locator(':focus').textContent()).to.match(/soon\s+cancelled/);

    await queue(page, 'stubborn');
    await ownTask(page, 'running').waitFor();
    expect(await cancel()).to.equal(202);
    await page.locator('.own-state', { hasText: 'cancelling' }).waitFor();
    expect(await cancelButton.getAttribute('aria-disabled')).to.equal('true');
    await cancelled('stubborn').waitFor();

    await queue(page, 'soon');
    await ownTask(page, 'retrying').waitFor();
    const id = await ownTask(page, 'retrying').getAttribute('data-id');
    expect((await fetch(`${tasks}/tasks/${id}`, { method: 'DELETE' })).status).to.equal(204);
    await cancelled('soon').nth(1).waitFor();

    // Until the service has refused the cancellation, the page does not learn of the end.
    let isRefused = false;
    await page.route(/\/tasks\/[0-9a-f-]{36}$/, async (route) => {
      if (route.request().method() === 'DELETE') {
        const response = await route.fetch();
        isRefused = response.status() === 409;
        await route.fulfill({ response });
      } else if (isRefused) await route.continue();
      else await route.fulfill({ json: { status: 'queued' } });
    });
    await page.getByLabel('uppercase').check();
    await queueButton(page).click();
    await page.locator('.task-row', { hasText: 'uppercase' }).waitFor();
    await cancelButton.click();
    await ownTask(page, 'completed').waitFor();
    expect(isRefused).to.equal(true);
  });

  it('that failed can be edited or, unless for good, tried again; one that another client redrives is followed; the next attempt is counted down', async () => {
    const path = join(await temporaryFolder(), 'file');
    const { tasks } = services();
    const page = await visit(tasks);
    await queue(page, 'declined', '{"amount": 12}');
    await ownTask(page, 'failed').filter({ hasText: 'card declined' }).waitFor();
    expect(await page.getByRole('button', { name: 'Try again' }).count()).to.equal(0);
    await page.getByLabel('uppercase').check();
    await page.getByRole('button', { name: 'Edit and resubmit' }).click();
    expect(await page.locator('input[name="kind"]:checked').inputValue()).to.equal('other');
    expect(await page.locator('#choice').inputValue()).to.equal('declined');
    expect(await part(page, 'curl').textContent()).to.include('"amount":12');

    await queue(page, 'found', JSON.stringify({ path }));
    const missing = ownTask(page, 'failed').filter({ hasText: 'no such file' });
    await missing.waitFor();
    const id = await missing.getAttribute('data-id');
    await writeFile(path, '');
    await post(`${tasks}/dead-letters/${id}/retry`, {});
    await ownTask(page, 'completed').filter({ hasText: 'found' }).waitFor();

    await queue(page, 'soon');
    const retrying = ownTask(page, 'retrying').filter({ hasText: 'a little later' });
    await retrying.waitFor();
    const state = () => retrying.locator('[data-part="state"]').textContent();
    const first = await state();
    expect(first).to.match(/^again in \d\d s$/);
    await changes(state, first);
    await post(`${tasks}/tasks/${await retrying.getAttribute('data-id')}/run`, {});
    await ownTask(page, 'failed').filter({ hasText: 'soon' }).waitFor();
    await page.route('**/redrive', (route) => route.fulfill({ json: { count: 0, remaining: 0 } }), { times: 1 });
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Not redriven: the service no longer has this task among the failed ones.').waitFor();
    const redriven = page.waitForResponse((response) => response.url().endsWith('/redrive'));
    await page.getByRole('button', { name: 'Try again' }).click();
    expect((await (await redriven).json()).count).to.equal(1);
    await retrying.waitFor();
  });
});
