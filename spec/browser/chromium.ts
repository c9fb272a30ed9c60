import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import { mkdtemp, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { chromium, type Page } from 'playwright-core';
import { afterTest } from '../support/cleanup.ts';
import { describeWith, lacking } from '../support/requirements.ts';
import { eventually } from '../support/until.ts';

// The headless shell takes three quarters of the CPU time, but has no back/forward cache.
const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = PATHS.find((path) => existsSync(path));
const ARGUMENTS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-extensions',
  '--disable-field-trial-config',
  '--no-startup-window',
  // Without these flags Chromium throttles timers in a background page.
  '--disable-background-timer-throttling',
  '--disable-backgrounding-occluded-windows',
  '--disable-renderer-backgrounding',
  // All pages of a context share a renderer process: a new process costs as much CPU time as a page.
  '--renderer-process-limit=1',
  '--disable-site-isolation-trials',
  '--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess,' +
    // The popups of the address bar are pages, which take half of the CPU time of a new window.
    'WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup',
];

/**
 * Defines a suite that needs Chromium. Without Chromium the suite is pending locally and fails in CI. All suites of a
 * process share one browser.
 */
export function describeInBrowser(title: string, define: () => void): void {
  describeWith(executablePath === undefined ? lacking('Chromium', 'chromium') : undefined, title, () => {
    after(async () => {
      // A worker of mocha ends with `process.exit`, however many connections are open.
      if (process.env.MOCHA_WORKER_ID !== undefined) return;
      await (await running)?.close();
      running = undefined;
    });
    before(function () {
      this.test?.parent?.eachTest(watch);
    });
    afterEach(async function () {
      const { state, title } = this.currentTest as Mocha.Test;
      for (const { page } of visited.splice(0)) {
        if (state !== 'passed')
          console.error(`${title}: the page showed\n${await page.innerText('body').catch(String)}`);
      }
    });
    define();
  });
}

/** Lets a test fail if a page that it has visited logged an error. */
function watch(test: Mocha.Test): void {
  const run = test.fn as Mocha.AsyncFunc;
  test.fn = async function (this: Mocha.Context) {
    await run.call(this);
    for (const { problems } of visited) expect(problems, 'problems in the console').to.deep.equal([]);
  };
}

let running: ReturnType<typeof startBrowser> | undefined;

async function startBrowser() {
  const profile = await mkdtemp(join(tmpdir(), 'ticker-spec-chromium-'));
  const options = ['--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'];
  const child = spawn(executablePath ?? '', [...ARGUMENTS, ...options], { stdio: 'ignore', detached: true });
  // The browser outlives single tests, so the leak check must not count its process.
  child.unref();
  const kill = () => {
    process.kill(-(child.pid as number), 'SIGKILL');
    rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  };
  process.once('exit', kill);
  // Chromium writes its port into its profile once it listens.
  const read = () => readFile(join(profile, 'DevToolsActivePort'), 'utf8').catch(() => '');
  const [port] = (await eventually(read, (text) => text !== '' || child.exitCode !== null)).split('\n');
  const browser = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
  // Context of all visits without one of their own. The pages under test keep nothing in it.
  const shared = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  // An open page keeps the context's renderer process. A new process costs twice as much CPU time as a page.
  await shared.newPage();
  return {
    browser,
    shared,
    async close() {
      process.off('exit', kill);
      await browser.close();
      kill();
    },
  };
}

export interface VisitOptions {
  width?: number;
  height?: number;
  colorScheme?: 'light' | 'dark';
  /** Errors that the test provokes on purpose. */
  tolerated?: RegExp;
  /** Whether the test changes the browser context, as the page's clock does. */
  ownContext?: boolean;
  prepare?(page: Page): Promise<unknown>;
}

/** Pages of the running test, and the problems that each has logged. */
const visited: { page: Page; problems: string[] }[] = [];

/** Opens a fresh page, which is closed after the test. The test fails if the page has logged an error. */
export async function visit(url: string, options: VisitOptions = {}): Promise<Page> {
  const { width = 1280, height = 800, colorScheme = 'light', tolerated, prepare } = options;
  running ??= startBrowser();
  const { browser, shared } = await running;
  const context = options.ownContext ? await browser.newContext() : shared;
  // Less than the limit of a test, so that a page that is stuck fails with the name of the element.
  context.setDefaultTimeout(150_000);
  const page = await context.newPage();
  afterTest(() => (options.ownContext ? context.close() : page.close()));
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
  const problems: string[] = [];
  visited.push({ page, problems });
  const note = (problem: string) => {
    if (!tolerated?.test(problem)) problems.push(problem);
  };
  // Violations of the Content-Security-Policy are errors in the console too.
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) note(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => note(String(error)));
  await prepare?.(page);
  await page.goto(url);
  return page;
}

/** Matches the console errors of a lost connection, of the check of its token, and of an invalid key. */
export const LOST = /net::ERR_|WebSocket connection to|status of (401|426)/;

/** The element that the page's HTML marks as `data-part="<name>"`. */
export const part = (page: Page, name: string) => page.locator(`[data-part="${name}"]`);

export const partShows = (page: Page, name: string, text: string | RegExp) =>
  part(page, name).filter({ hasText: text }).waitFor();

export const reaches = (page: Page, state: string) => page.locator(`.pill[data-state="${state}"]`).waitFor();

export async function enterKey(page: Page, apiKey: string): Promise<string> {
  const exchange = page.waitForResponse((response) => response.url().endsWith('/auth/token'));
  await page.getByLabel('API key', { exact: true }).fill(apiKey);
  await page.keyboard.press('Enter');
  const { token } = await (await exchange).json();
  await reaches(page, 'live');
  return token;
}

/** Enters the API key and waits for live prices. Returns the token. */
export async function signIn(page: Page, apiKey: string): Promise<string> {
  const token = await enterKey(page, apiKey);
  // A card is shown for a frame before it has a price.
  await page.locator('.price-card [data-part="price"]', { hasText: '$' }).first().waitFor();
  return token;
}

/** Waits until `read` returns a value other than `before`, which is the value of now by default. Returns the new value. */
export async function changes(read: () => Promise<string | null>, before?: string | null): Promise<string | null> {
  const old = before === undefined ? await read() : before;
  return eventually(read, (now) => now !== old);
}

export function countRequests(page: Page, url: RegExp): () => number {
  let count = 0;
  page.on('request', (request) => {
    if (url.test(request.url())) count += 1;
  });
  return () => count;
}

/** Notes every state of the connection indicator from now on. Returns a function that returns the states. */
export async function noteStates(page: Page): Promise<() => Promise<string[]>> {
  const states = await page.evaluateHandle(() => {
    const pill = document.querySelector('.pill') as HTMLElement;
    const seen = [pill.dataset.state as string];
    new MutationObserver(() => seen.push(pill.dataset.state as string)).observe(pill, {
      attributeFilter: ['data-state'],
    });
    return seen;
  });
  return () => states.evaluate((seen) => [...new Set(seen)]);
}

export const overflow = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

export const enlargeText = (page: Page) => page.evaluate("document.documentElement.style.fontSize = '200%'");

/** Records the layout shifts that no input has caused. Call it before the page loads. */
export const recordShifts = (page: Page) =>
  page.addInitScript(() => {
    const shifts: { value: number; moved: string[] }[] = [];
    Object.assign(window, { shifts });
    new PerformanceObserver((list) => {
      type Shift = PerformanceEntry & { value: number; hadRecentInput: boolean; sources: { node: Node | null }[] };
      for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[]) {
        const moved = sources.map(({ node }) => (node instanceof Element ? node.outerHTML.slice(0, 60) : '#text'));
        if (!hadRecentInput) shifts.push({ value, moved });
      }
    }).observe({ type: 'layout-shift', buffered: true });
    // The browser may lay out a page between any two of its tasks, for example to find what is under the mouse.
    const layOut = new MutationObserver(() => document.elementFromPoint(0, 0));
    addEventListener('DOMContentLoaded', () => layOut.observe(document, { subtree: true, childList: true }));
  });

export const expectFewShifts = async (page: Page, most: number) => {
  // @ts-expect-error: defined above
  const shifts: { value: number; moved: string[] }[] = await page.evaluate(() => window.shifts);
  const sum = shifts.reduce((total, { value }) => total + value, 0);
  expect(sum, JSON.stringify(shifts, null, 1)).to.be.below(most);
};
