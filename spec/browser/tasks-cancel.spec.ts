import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { eventually } from '../support/until.ts';
import { describeInBrowser, part, partShows, reaches, visit } from './chromium.ts';
import { actionChoice, ownTask, queueButton, startWithHandlers } from './task-rows.ts';

const HANDLERS = `
const untilAborted = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
export default {
  import: (_, { signal, progress }) => { progress(0.256, 'row 256 of 1000'); return untilAborted(signal); },
  steps: async (_, { signal, progress }) => {
    for (let step = 0; !signal.aborted; step++) {
      progress(1 - 1 / (step + 1), 'step ' + step);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    throw signal.reason;
  },
  stubborn: () => new Promise(() => {}),
  late() { throw new RetryAfter(3_600_000, 'much later'); },
};`;

const cancelButton = (page: Page) => page.getByRole('button', { name: 'Cancel' });

/** Queues a task without data. */
async function queue(page: Page, action: string): Promise<void> {
  await reaches(page, 'live');
  await page.getByLabel('other').check();
  await actionChoice(page).selectOption(action);
  await queueButton(page).click();
}

/** A request for a task that is being cancelled may be answered with 404. */
const tolerated = /status of 404/;

describeInBrowser('the task board', () => {
  const services = onceForSuite(() => startWithHandlers(HANDLERS, { TASK_CANCEL_GRACE_MS: '3000' }));

  it('shows the progress of a task by its events, cancels it, and says so until it has ended', async () => {
    await visit(services().tasks, { tolerated }, async (page) => {
      const cancelled = (action: string) => ownTask(page, 'cancelled').filter({ hasText: action });
      const cancel = async () => {
        const answer = page.waitForResponse((response) => response.request().method() === 'DELETE');
        await cancelButton(page).focus();
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
      expect(await cancel()).to.equal(202);
      await cancelled('steps').waitFor();

      await queue(page, 'import');
      const task = ownTask(page, 'running');
      await task.getByText('25 %').waitFor();
      await task.getByText('row 256 of 1000').waitFor();
      const progress = page.getByRole('progressbar', { name: 'Progress of import' });
      expect(await progress.getAttribute('value')).to.equal('0.256');
      expect(await cancel()).to.equal(202);
      await cancelled('import').waitFor();
      expect(await cancelled('import').textContent()).to.match(/import\s+cancelled/);
      await partShows(page, 'own-status', 'Cancelled import');
      expect(await page.getByRole('progressbar').count()).to.equal(0);
      expect(await cancelButton(page).count()).to.equal(0);

      await queue(page, 'late');
      await ownTask(page, 'retrying').waitFor();
      expect(await cancel()).to.equal(204);
      await cancelled('late').waitFor();
      expect(await page.locator(':focus').textContent()).to.match(/late\s+cancelled/);

      await queue(page, 'stubborn');
      await ownTask(page, 'running').waitFor();
      expect(await cancel()).to.equal(202);
      await page.locator('.own-state', { hasText: 'cancelling' }).waitFor();
      expect(await cancelButton(page).getAttribute('aria-disabled')).to.equal('true');
      await cancelled('stubborn').waitFor();
    });
  });

  it('says that a task was cancelled elsewhere, and shows the end of one that finished before it was cancelled', async () => {
    const { tasks } = services();
    await visit(tasks, { tolerated: /status of 40[49]/ }, async (page) => {
      const following = page.waitForResponse((response) => response.url().endsWith('/tasks/events'));
      await queue(page, 'late');
      await following;
      await ownTask(page, 'retrying').waitFor();
      const id = await page.locator('.own-task').first().getAttribute('data-id');
      expect((await fetch(`${tasks}/tasks/${id}`, { method: 'DELETE' })).status).to.equal(204);
      await ownTask(page, 'cancelled').waitFor();

      // Until the service has refused the cancellation, the page does not learn of the end.
      let isRefused = false;
      await page.route(/\/tasks\/[0-9a-f-]{36}$/, async (route) => {
        if (route.request().method() === 'DELETE') {
          const response = await route.fetch();
          expect(response.status()).to.equal(409);
          isRefused = true;
          await route.fulfill({ response });
        } else if (isRefused) await route.continue();
        else await route.fulfill({ json: { status: 'queued' } });
      });
      await page.getByLabel('uppercase').check();
      await queueButton(page).click();
      await page.locator('.task-row', { hasText: 'uppercase' }).waitFor();
      await cancelButton(page).click();
      await ownTask(page, 'completed').waitFor();
    });
  });
});
