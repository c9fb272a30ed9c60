import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { post, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { LOST, visit } from './chromium.ts';
import { part, partShows, reaches, signIn } from './page.ts';
import { fill, startWithHandlers, untilFailed } from './task-rows.ts';
import { LONG_RECONNECT } from './ticker-page.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Handlers with long texts: of an action whose data has a schema, which runs until it is cancelled, and of tasks that fail. */
const HANDLERS = `
const long = 'W'.repeat(150);
const lines = ' one line after another '.repeat(10);
const properties = { [long]: { type: 'integer', title: long, description: lines }, b: {} };
export default {
  [long]: {
    schema: { type: 'object', title: long, required: ['b'], properties },
    handler: (_, { signal, progress }) => new Promise((_, reject) => {
      progress(0.25, long);
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
  },
  [long + 'fails']() { throw new PermanentError(long + lines); },
  tires() { throw new RetryAfter(1, 'try again'); },
};`;

/** Asserts that axe-core finds nothing in a page's current state, and that neither it nor a dialog scrolls horizontally. */
async function checkAppearance(page: Page, state: string): Promise<void> {
  // The source is sent to each document once.
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(axe);
  type Violation = { id: string; nodes: { html: string; failureSummary: string }[] };
  const violations = await page.evaluate(async () => {
    // @ts-expect-error: injected above
    const found: Violation[] = (await axe.run({ resultTypes: ['violations'], preload: false })).violations;
    return found.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => [id, html, failureSummary]));
  });
  expect(violations, state).to.deep.equal([]);
  await checkWidth(page, state);
}

async function checkWidth(page: Page, state: string): Promise<void> {
  const tooWide = await page.evaluate(() => {
    const boxes = [document.documentElement, ...document.querySelectorAll('dialog[open]')];
    return boxes.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map(({ tagName }) => tagName);
  });
  expect(tooWide, `${state}: beyond the width`).to.deep.equal([]);
}

export function itShowsTheTickerAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`ticker, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '60000' } });
    const network = await severable(ticker);
    const prepare = async (page: Page) => {
      await page.clock.install();
      await page.addInitScript(LONG_RECONNECT);
      // States an interval of a second, so that prices become stale before the missing pong ends the connection.
      await page.routeWebSocket('**/ws/ticker', (route) => {
        const server = route.connectToServer();
        server.onMessage((text) => route.send(String(text).replace('"interval_ms":60000', '"interval_ms":1000')));
      });
    };
    const page = await visit(network.url, { width, colorScheme, tolerated: LOST, ownContext: true, prepare });
    await checkAppearance(page, 'signed out');
    await page.getByLabel('API key', { exact: true }).fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByText('invalid API key').waitFor();
    await checkAppearance(page, 'wrong key');
    await signIn(page, apiKey);
    await part(page, 'connection').click();
    await checkAppearance(page, 'diagnostics');
    await part(page, 'drawer-open').click();
    await part(page, 'frames').locator('li').nth(1).waitFor();
    await checkAppearance(page, 'frames');
    await page.getByRole('radio', { name: 'Python' }).check();
    await checkAppearance(page, 'snippet');
    await part(page, 'drawer-close').click();
    await page.getByLabel('Theme').selectOption(colorScheme === 'light' ? 'dark' : 'light');
    await checkAppearance(page, 'other theme');
    await page.getByLabel('Theme').selectOption('');
    // The newest tick is up to a minute old, so the shortest span may not show it.
    await page.getByRole('radio', { name: '15 min' }).check();
    await page.getByLabel('Kind of chart').selectOption('5s');
    // The crosshair is hidden again when the chart becomes one of candles.
    const readout = page.locator('.candle-readout', { hasText: '%' }).first();
    await until(async () => {
      await page.getByRole('slider').first().press('End');
      return readout.isVisible();
    });
    await checkAppearance(page, 'candles');
    await page.locator('.u-over').first().click();
    await page.getByRole('link', { name: 'All prices' }).waitFor();
    await checkAppearance(page, 'one chart');
    await page.goBack();
    await page.getByRole('button', { name: 'Pause' }).click();
    await checkAppearance(page, 'paused');
    await page.clock.fastForward(4_000);
    await reaches(page, 'stale');
    await checkAppearance(page, 'stale');
    network.cut();
    await reaches(page, 'reconnecting');
    await checkAppearance(page, 'reconnecting');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await checkAppearance(page, 'signed out with charts');
  });
}

export function itShowsTheTaskBoardAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`task board, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { tasks } = await startWithHandlers(HANDLERS, { TASK_UNKNOWN_ACTIONS: 'process' });
    const network = await severable(tasks);
    const long = 'W'.repeat(300);
    const page = await visit(network.url, { width, colorScheme, tolerated: /status of 40|net::ERR_/ });
    for (const state of ['scheduled', 'queued', 'limited', 'running', 'retrying', 'completed']) {
      await page.locator(`.tab[data-state="${state}"]`).click();
      await part(page, 'empty-curl').waitFor();
      await checkWidth(page, `${state}, empty`);
    }
    await checkAppearance(page, 'empty');
    await page.getByLabel('Text').fill(long);
    await page.getByRole('button', { name: 'Queue task' }).click();
    await page.locator('.task-row', { hasText: 'W' }).waitFor();
    await page.locator('.own-task[data-state="completed"]').waitFor();
    await checkAppearance(page, 'completed');
    await page.goto(`${network.url}/?action=${long.slice(100)}`);
    await page.getByText('No completed task matches.').waitFor();
    await checkWidth(page, 'nothing found');
    await part(page, 'action-chip').click();
    await page.keyboard.press('?');
    await part(page, 'help').waitFor();
    await checkAppearance(page, 'help');
    await page.keyboard.press('Escape');
    await page.getByLabel('other').check();
    await page.locator('.data-field').first().waitFor();
    await page.getByRole('button', { name: 'Queue task' }).click();
    await page.getByRole('progressbar').waitFor();
    await page.locator('.tab[data-state="running"]').click();
    await page.locator('.task-row', { hasText: '25 %' }).waitFor();
    await checkAppearance(page, 'action with a schema, and progress');
    await page.locator('.task-row [data-open]').first().click();
    await partShows(page, 'inspector-state', 'running');
    await checkAppearance(page, 'running task inspected');
    await page.keyboard.press('Escape');
    await post(`${tasks}/queue/pause`, {});
    await page.getByRole('button', { name: 'Resume the queue' }).waitFor();
    await checkAppearance(page, 'queue paused');
    await post(`${tasks}/queue/resume`, {});
    await page.locator('.own-cancel:visible').click();
    await page.locator('.own-task[data-state="cancelled"]').waitFor();
    await page.locator('#json').fill('{}');
    await page.getByRole('button', { name: 'Queue task' }).click();
    await page.locator('#json-error').filter({ hasText: 'must be present' }).waitFor();
    await checkWidth(page, 'cancelled, data refused');
    await page.locator('#choice').selectOption('another action');
    await page.getByRole('button', { name: 'Queue task' }).click();
    await page.locator('#action-error').filter({ hasText: 'Give' }).waitFor();
    await checkAppearance(page, 'refused');
    await checkSettings(page, long);
    network.cut();
    await reaches(page, 'offline');
    await checkAppearance(page, 'offline');
  });
}

async function checkSettings(page: Page, long: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  const schedule = { Name: long.slice(0, 100), 'Cron expression': '* 3 * * *', 'Limit key': long.slice(0, 255) };
  for (const [name, fields] of [
    ['schedules', { ...schedule, Action: long }],
    ['limits', { Action: long.slice(0, 200), 'Tasks of each key at once': '1' }],
  ] as const) {
    // Both pages have the same parts.
    const check = name === 'schedules' ? checkAppearance : checkWidth;
    await page.locator(`.pages a[data-page="${name}"]`).click();
    await page.locator(`[data-part="${name}"] .empty-title`).waitFor();
    await checkWidth(page, `no ${name}`);
    await part(page, 'new').locator('visible=true').click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.locator('[aria-invalid]').waitFor();
    await check(page, `${name}, wrong`);
    await fill(dialog, fields);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator('.setting:visible').waitFor();
    await check(page, name);
    await page.getByRole('button', { name: 'Delete' }).click();
    await check(page, `${name}, deletion`);
    await page.keyboard.press('Escape');
  }
}

export function itShowsFailedTasksAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`failed tasks, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { tasks } = await startWithHandlers(HANDLERS);
    const page = await visit(`${tasks}/?state=failed`, { width, colorScheme });
    await page.getByText('No task has failed').waitFor();
    const isOpen = await part(page, 'charts-details').evaluate((details: HTMLDetailsElement) => details.open);
    expect(isOpen, 'the charts are folded on a small screen at first').to.equal(width >= 768);
    if (!isOpen) await page.getByText('The last 15 minutes', { exact: true }).click();
    await page.getByText('Actions and workers').click();
    await part(page, 'throughput').locator('canvas').waitFor();
    await checkAppearance(page, 'none, with charts');
    for (const action of [`${'W'.repeat(150)}fails`, 'tires']) await post(`${tasks}/tasks`, { action });
    await untilFailed(tasks, 2);
    await page.locator('.task-row').nth(1).waitFor();
    await page.locator('.reason').nth(2).waitFor();
    await page.getByLabel('Select all shown tasks').check();
    await page.getByText('1 of them has a permanent error').waitFor();
    await checkAppearance(page, 'selected');
    await page.locator('.task-row [data-open]').first().click();
    await partShows(page, 'inspector-state', 'failed');
    await checkAppearance(page, 'inspected');
    const isModal = await page.evaluate(() => document.querySelector('dialog[open]')?.matches(':modal'));
    if (width === 320) expect(isModal, 'the inspector covers a small screen').to.equal(true);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Purge', exact: true }).click();
    await part(page, 'confirm').waitFor();
    await checkAppearance(page, 'asked before a purge');
    await part(page, 'confirm').click();
    await part(page, 'undo').waitFor();
    await checkAppearance(page, 'purge pending');
  });
}
