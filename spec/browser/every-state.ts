import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { eventually } from '../support/until.ts';
import { violations } from './accessibility.ts';
import { LOST, part, reaches, signIn, visit } from './chromium.ts';
import { startWithHandlers } from './task-rows.ts';
import { STALE_AFTER_MS, waitLongToReconnect } from './ticker-page.ts';

/** A handlers module with an action whose data has a schema, and which runs until it is cancelled. Its texts are long. */
const HANDLERS = `
const long = 'W'.repeat(150);
const properties = { [long]: { type: 'integer', title: long, description: 'one line after another '.repeat(10) }, b: {} };
export default {
  [long]: {
    schema: { type: 'object', title: long, required: ['b'], properties },
    handler: (_, { signal, progress }) => new Promise((_, reject) => {
      progress(0.25, long);
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
  },
};`;

/** Asserts that a page is accessible in its current state, and that neither it nor a dialog scrolls horizontally. */
export async function checkAppearance(page: Page, state: string): Promise<void> {
  expect(await violations(page), state).to.deep.equal([]);
  await checkWidth(page, state);
}

async function checkWidth(page: Page, state: string): Promise<void> {
  const beyond = await page.evaluate(() => {
    const dialogs = [...document.querySelectorAll('dialog[open]')];
    const widths = dialogs.map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
    return Math.max(document.documentElement.scrollWidth - innerWidth, ...widths);
  });
  expect(beyond, `${state}: pixels beyond the width`).to.be.at.most(0);
}

/** Defines the spec of every state of the ticker page at a given width and color scheme. */
export function itShowsTheTickerAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`ticker, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { ticker, apiKey } = await startServices({ env: { TICK_INTERVAL_MS: '60000' } });
    const network = await severable(ticker);
    const prepare = async (page: Page) => {
      await page.clock.install();
      await waitLongToReconnect(page);
      // States an interval of a second, so that prices become stale before the missing pong ends the connection.
      await page.routeWebSocket('**/ws/ticker', (route) => {
        const server = route.connectToServer();
        server.onMessage((text) => route.send(String(text).replace('"interval_ms":60000', '"interval_ms":1000')));
      });
    };
    await visit(network.url, { width, colorScheme, tolerated: LOST, ownContext: true, prepare }, async (page) => {
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
      const pin = async () => {
        await page.getByRole('slider').first().press('End');
        return readout.isVisible();
      };
      await eventually(pin, (isPinned) => isPinned);
      await checkAppearance(page, 'candles');
      await page.getByRole('button', { name: 'Pause' }).click();
      await checkAppearance(page, 'paused');
      await page.clock.fastForward(STALE_AFTER_MS);
      await reaches(page, 'stale');
      await checkAppearance(page, 'stale');
      network.cut();
      await reaches(page, 'reconnecting');
      await checkAppearance(page, 'reconnecting');
      await page.getByRole('button', { name: 'Sign out' }).click();
      await checkAppearance(page, 'signed out with charts');
    });
  });
}

/** Defines the spec of every state of the task board at a given width and color scheme. */
export function itShowsTheTaskBoardAt(width: number, colorScheme: 'light' | 'dark'): void {
  it(`task board, ${width} pixels wide, ${colorScheme}: every state is accessible and fits`, async () => {
    const { tasks } = await startWithHandlers(HANDLERS, { TASK_UNKNOWN_ACTIONS: 'process' });
    const network = await severable(tasks);
    const long = 'W'.repeat(300);
    await visit(network.url, { width, colorScheme, tolerated: /status of 40|net::ERR_/ }, async (page) => {
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
      await checkAppearance(page, 'nothing found');
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
      await page.locator('.own-cancel:visible').click();
      await page.locator('.own-task[data-state="cancelled"]').waitFor();
      await page.locator('#json').fill('{}');
      await page.getByRole('button', { name: 'Queue task' }).click();
      await page.locator('#json-error').filter({ hasText: 'must be present' }).waitFor();
      await checkAppearance(page, 'cancelled, data refused');
      await page.locator('#choice').selectOption('another action');
      await page.getByRole('button', { name: 'Queue task' }).click();
      await page.locator('#action-error').filter({ hasText: 'Give' }).waitFor();
      await checkAppearance(page, 'refused');
      await checkSettings(page, long);
      network.cut();
      await reaches(page, 'offline');
      await checkAppearance(page, 'offline');
    });
  });
}

/** Asserts the appearance of the pages of schedules and limits, of their dialogs, and of a limited task. */
async function checkSettings(page: Page, long: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  for (const [name, fields] of [
    [
      'schedules',
      { Name: long.slice(0, 100), 'Cron expression': '* 3 * * *', Action: long, 'Limit key': long.slice(0, 255) },
    ],
    ['limits', { Action: long.slice(0, 200), 'Tasks of each key at once': '1' }],
  ] as const) {
    await page.locator(`.pages a[data-page="${name}"]`).click();
    await page.locator(`[data-part="${name}"] .empty-title`).waitFor();
    await checkAppearance(page, `no ${name}`);
    await part(page, 'new').locator('visible=true').click();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.locator('[aria-invalid]').waitFor();
    await checkAppearance(page, `${name}, wrong`);
    for (const [label, text] of Object.entries(fields)) await dialog.getByLabel(label, { exact: true }).fill(text);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.locator('.setting:visible').waitFor();
    await checkAppearance(page, name);
    await page.getByRole('button', { name: 'Delete' }).click();
    await checkAppearance(page, `${name}, deletion`);
    await page.keyboard.press('Escape');
  }
}
