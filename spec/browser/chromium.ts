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
  ...['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--no-startup-window', '--disable-extensions'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-field-trial-config'],
  // Without these flags Chromium throttles timers in a background page.
  ...['--disable-background-timer-throttling', '--disable-backgrounding-occluded-windows'],
  '--disable-renderer-backgrounding',
  // All pages of a context share a renderer process: a new process costs as much CPU time as a page.
  ...['--renderer-process-limit=1', '--disable-site-isolation-trials'],
  '--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess,' +
    // The popups of the address bar are pages, which take half of the CPU time of a new window.
    'WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup',
];

/** Defines a suite that needs Chromium. All suites of a process share one browser. */
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
