import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { onceForSuite } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { describeInBrowser, visit } from './chromium.ts';
import { countRequests, enlargeText, part, partShows, reaches } from './page.ts';
import { ownTask, queueButton, row, rows, startWithHandlers, tab } from './task-rows.ts';

const tolerated = /net::ERR_|status of [45]/;

const SLOW = `export default {
  slow: (_, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
};`;

/** Waits for a state. Counts looks at the queue, one each second, because a loaded machine may need more seconds. */
async function reachesAfter(page: Page, state: string, mostLooks: number): Promise<void> {
  const looks = countRequests(page, /\/queue$/);
  await reaches(page, state);
  expect(looks()).to.be.at.most(mostLooks);
}
const alert = (page: Page, hasText: string | RegExp) => page.getByRole('alert').filter({ hasText });
const notice = (page: Page, kind: string) => page.locator(`.situation[data-kinds~="${kind}"]`);
const figure = (page: Page, name: string, text: string | RegExp) => partShows(page, `health-${name}`, text);

describeInBrowser('the state of the connection and of the queue on the task board', () => {
  const services = onceForSuite(startServices);

  it('is “Offline” within five seconds after the service was killed or the network swallows all data, and “Live” within two after it is back', async () => {
    const first = await startServices();
    const network = await severable(first.tasks);
    const page = await visit(network.url, { tolerated });
    await partShows(page, 'last-event', 'no event yet');
    await queueButton(page).click();
    await rows(page).waitFor();
    await partShows(page, 'last-event', /last event (under )?\d+ s ago/);
    await post(`${first.tasks}/queue/pause`, {});
    await post(`${first.tasks}/tasks`, { action: 'lost' });
    await tab(page, 'Queued').click();
    await row(page, 'lost').waitFor();
    first.child.kill('SIGKILL');
    await reachesAfter(page, 'offline', 5);
    expect(await part(page, 'connection-text').textContent()).to.equal('Offline');
    expect(await part(page, 'health-status').textContent()).to.include('The service does not answer.');
    expect(await part(page, 'queue-state').textContent()).to.equal('');
    expect(await part(page, 'health').getAttribute('data-condition')).to.equal('unknown');
    expect(await page.title()).to.match(/^⚠ The service does not answer\./);
    expect(await page.getByRole('button', { name: 'Retry' }).isVisible()).to.equal(true);
    await queueButton(page).click();
    await alert(page, 'The service cannot be reached.').waitFor();
    await rows(page).locator('.task-name').click();
    await partShows(page, 'inspector-state', 'queued');
    const { tasks } = await startServices({ env: { ...first.env, TASKS_PORT: new URL(first.tasks).port } });
    await reachesAfter(page, 'live', 2);
    await page.getByText('The service cannot be reached.').waitFor({ state: 'hidden' });
    await partShows(page, 'inspector-state', 'unknown');
    await rows(page).waitFor({ state: 'hidden' });
    await post(`${tasks}/queue/resume`, {});
    await page.keyboard.press('Escape');
    await tab(page, 'Completed').click();
    await post(`${tasks}/tasks`, { action: 'after-restart' });
    await row(page, 'after-restart').waitFor();
    await partShows(page, 'count-completed', /^1 since \d\d:\d\d$/);

    network.stall();
    await reachesAfter(page, 'offline', 5);
    await post(`${tasks}/tasks`, { action: 'during-outage' });
    network.mend();
    await reachesAfter(page, 'live', 2);
    await row(page, 'during-outage').waitFor();
  });

  it('says that the queue is stalled or paused, why, and what to do, until tasks are processed again', async () => {
    const { tasks, env } = services();
    const page = await visit(tasks, { tolerated });
    await partShows(page, 'queue-state', 'queue running');
    await figure(page, 'threads', /^0 of 2$/);
    const [file, away] = [join(env.DATA_DIR, 'tasks.db'), join(env.DATA_DIR, 'away.db')];
    await rename(file, away);
    await post(`${tasks}/tasks`, { action: 'stuck' });
    await notice(page, 'stalled').waitFor();
    await partShows(page, 'queue-state', 'queue stalled');
    expect(await notice(page, 'stalled').textContent()).to.match(/No task can be processed since .*: .*DATA_DIR/s);
    await rename(away, file);
    await notice(page, 'stalled').waitFor({ state: 'hidden' });
    await partShows(page, 'queue-state', 'queue running');
    await reaches(page, 'live');
    await row(page, 'stuck').waitFor();

    const answerPause = async (answer: string) => {
      await page.getByRole('button', { name: 'Pause queue' }).click();
      await page.getByRole('dialog').getByRole('button', { name: answer }).click();
    };
    await answerPause('Keep it running');
    await page.route('**/queue/pause', (route) => route.abort(), { times: 1 });
    await answerPause('Pause the queue');
    await partShows(page, 'toast-text', /^Cannot change the queue: /);
    await answerPause('Pause the queue');
    await partShows(page, 'queue-state', 'queue paused');
    await partShows(page, 'sentence', /^The queue is paused, since \d\d:\d\d\.$/);
    await post(`${tasks}/tasks`, { action: 'waits' });
    await figure(page, 'backlog', '1');
    await figure(page, 'oldest', /\d\.\d s/);
    expect(await notice(page, 'paused').textContent()).to.include(`curl -X POST ${tasks}/queue/resume`);
    await page.getByRole('button', { name: 'Resume the queue' }).click();
    await notice(page, 'paused').waitFor({ state: 'hidden' });
    await partShows(page, 'queue-state', 'queue running');
    await figure(page, 'backlog', '0');
    await figure(page, 'completed', /[\d.]+ \/ s/);
  });

  it('shows how many threads are busy and how many tasks run at a time, and says that the queue is full, when the task can be queued, and nothing of it once the queue has room', async () => {
    // The tasks that fill the queue must not be ended by the timeout, however slow the machine is.
    const env = { TASK_OVERLAP: '10', TASK_PREFETCH: '15', QUEUE_MAX_LENGTH: '12', TASK_TIMEOUT_MS: '3600000' };
    const { tasks } = await startWithHandlers(SLOW, env);
    const page = await visit(tasks, { tolerated, width: 320 });
    await figure(page, 'threads', '0 of 2');
    await partShows(page, 'more-threads', '15 tasks at a time');
    await enlargeText(page);
    const clipped = await page.locator('.health-figures').evaluate((all) => all.scrollWidth - all.clientWidth);
    expect(clipped).to.equal(0);
    await page.setViewportSize({ width: 1280, height: 800 });
    const { body } = await post(`${tasks}/tasks`, { action: 'slow' });
    await post(`${tasks}/tasks/batch`, { tasks: Array(11).fill({ action: 'slow' }) });
    await figure(page, 'threads', '2 of 2');
    await figure(page, 'running', '12');
    await partShows(page, 'count-running', /^12$/);

    await notice(page, 'full').filter({ hasText: 'The queue is full: 12 of 12 tasks' }).waitFor();
    expect(await queueButton(page).isVisible(), 'the form during trouble').to.equal(false);
    await page.getByRole('link', { name: 'Queue a task' }).click();
    const button = queueButton(page);
    // The alert is visible for one second.
    const said = page.evaluate(
      (wanted) =>
        new Promise<void>((resolve) => {
          new MutationObserver(() => {
            const alerts = [...document.querySelectorAll('[role="alert"]')];
            if (alerts.some((alert) => alert.checkVisibility() && wanted.test(alert.textContent))) resolve();
          }).observe(document.body, { subtree: true, childList: true, characterData: true });
        }),
      /The queue is full\. Try again in \d s\./,
    );
    await Promise.all([said, button.click()]);
    await button.click({ force: true });
    await alert(page, /^The queue is full\.$/).waitFor();
    await fetch(`${tasks}/tasks/${body.id}`, { method: 'DELETE' });
    await notice(page, 'full').waitFor({ state: 'hidden' });
    await partShows(page, 'sentence', /submissions? a (minute|second) refused/);
    await alert(page, 'The queue is full.').waitFor({ state: 'hidden' });
    await button.click();
    await ownTask(page, 'completed').waitFor();
    // By the clock of the page, because on a loaded machine the test observes the requests later.
    const pauses = await page.evaluate((url) => {
      const posts = performance.getEntriesByType('resource').filter(({ name }) => name === url);
      return posts
        .slice(1)
        .map(({ startTime }, index) => startTime - (posts[index] as PerformanceResourceTiming).responseEnd);
    }, `${tasks}/tasks`);
    expect(Math.min(...pauses), 'as long as Retry-After says').to.be.within(900, 3_600_000);
  });

  it('is “Live” without the event stream, names the error that the service answers, and updates a notice in place, announced once', async () => {
    const { tasks } = services();
    const prepare = (page: Page) => page.route('**/tasks/events', (route) => route.fulfill({ status: 503 }));
    const page = await visit(tasks, { prepare, tolerated });
    await reaches(page, 'live');
    await partShows(page, 'last-event', 'no event stream');
    await post(`${tasks}/tasks`, { action: 'counted' });
    await row(page, 'counted').waitFor();
    await queueButton(page).click();
    await ownTask(page, 'completed').waitFor();

    await page.route('**/tasks', (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()));
    await queueButton(page).click();
    const error = alert(page, 'The service cannot be reached.');
    await error.waitFor();
    await post(`${tasks}/tasks`, { action: 'rendered-later' });
    await row(page, 'rendered-later').waitFor();
    expect(await error.isVisible()).to.equal(true);
    await page.getByLabel('Text').fill('changed');
    await error.waitFor({ state: 'hidden' });

    const failing = async (error: string) => {
      await reaches(page, 'failing');
      expect(await part(page, 'connection-text').textContent()).to.equal(`Service answers: ${error}`);
    };
    const refuse = (pattern: string, error: string, retryAfter = '1') =>
      page.route(pattern, (route) =>
        route.fulfill({ status: 500, json: { error }, headers: { 'Retry-After': retryAfter } }),
      );
    await refuse('**/tasks', 'failed to queue task');
    await refuse('**/queue', 'queue unavailable', '3');
    await queueButton(page).click();
    await failing('queue unavailable');
    const refusal = alert(page, /^The service answers: failed to queue task\.$/);
    await refusal.waitFor();
    const asked: number[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/queue')) asked.push(performance.now());
    });
    await until(() => asked.length > 1);
    const pauses = asked.slice(1).map((at, index) => at - (asked[index] ?? 0));
    expect(Math.min(...pauses), 'as long as Retry-After says').to.be.above(2_000);
    const delayed = page.waitForResponse((response) => response.headers()['retry-after'] === '3600');
    await refuse('**/queue', 'queue unavailable', '3600');
    await delayed;
    for (const pattern of ['**/tasks', '**/queue']) await page.unroute(pattern);
    await page.getByRole('button', { name: 'Retry' }).click();
    await reaches(page, 'live');
    // It asks each second again, although the time of `Retry-After` has not passed.
    await page.waitForResponse('**/queue', { timeout: 30_000 });
    await refusal.waitFor({ state: 'hidden' });

    await refuse('**/tasks/search?*', 'database unavailable');
    for (const name of ['Queued', 'Completed']) await tab(page, name).click();
    await failing('database unavailable');
    await page.unroute('**/tasks/search?*');
    await reaches(page, 'live');

    let waiting = 1_000_000;
    await page.route('**/queue', async (route) => {
      const response = await route.fetch();
      waiting += 1;
      await route.fulfill({ response, json: { ...(await response.json()), paused: true, waiting } });
    });
    const resume = page.getByRole('button', { name: 'Resume the queue' });
    await resume.focus();
    const status = part(page, 'health-status');
    const announced = await status.textContent();
    expect(announced).to.match(/^The queue is paused\. The queue is full: 1,000,00\d of/);
    expect(await page.title()).to.equal('⚠ The queue is paused. Completed · Tasks');
    expect(await page.locator('link[rel="icon"]').getAttribute('href')).to.equal('/icon-problem.svg');
    const answered = waiting + 2;
    await until(async () => {
      const [, shown = ''] = /([\d,]+) of/.exec((await notice(page, 'full').textContent()) ?? '') ?? [];
      return Number(shown.replaceAll(',', '')) >= answered;
    });
    expect(await resume.evaluate((button) => button === document.activeElement)).to.equal(true);
    expect(await status.textContent()).to.equal(announced);
  });
});
