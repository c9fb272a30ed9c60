import { existsSync } from 'node:fs';
import { expect } from 'chai';
import { chromium, type Page } from 'playwright-core';
import { afterTest } from '../support/cleanup.ts';

const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const executablePath = PATHS.find((path) => existsSync(path));
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** A suite that needs Chromium: pending on a machine without it, but never in CI. */
export function describeInBrowser(title: string, define: () => void): void {
  const lacking = executablePath === undefined && process.env.CI !== 'true';
  describe(lacking ? `${title} (pending: there is no Chromium on this machine)` : title, () => {
    before(function () {
      if (lacking) this.skip();
    });
    define();
  });
}

export interface VisitOptions {
  width?: number;
  height?: number;
  colorScheme?: 'light' | 'dark';
  reducedMotion?: 'reduce' | 'no-preference';
  /** Console errors that the test provokes. */
  tolerated?: RegExp;
  /** What to do with the page before it loads. */
  prepare?(page: Page): Promise<unknown>;
}

/**
 * Opens a page in a fresh browser, does `test` with it, and fails if the page logged an error, threw one, or did what
 * its Content-Security-Policy forbids.
 */
export async function visit(url: string, options: VisitOptions, test: (page: Page) => Promise<void>): Promise<void> {
  const { width = 1280, height = 800, colorScheme = 'light', reducedMotion = 'reduce', tolerated, prepare } = options;
  const browser = await chromium.launch({ executablePath: executablePath ?? PATHS[0] ?? '', args: ARGUMENTS });
  afterTest(() => browser.close());
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion });
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', (message) => {
    const text = `${message.text()} (${message.location().url})`;
    if (['error', 'warning'].includes(message.type()) && !tolerated?.test(text)) problems.push(text);
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  await page.exposeFunction('reportViolation', (violation: string) => problems.push(violation));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      // @ts-expect-error: exposed above
      window.reportViolation(`${violatedDirective} forbids ${blockedURI}`);
    });
  });
  await prepare?.(page);
  await page.goto(url);
  await test(page);
  expect(problems, 'problems in the console').to.deep.equal([]);
}

/** The element that the page's HTML marks as `data-part="<name>"`. */
export const part = (page: Page, name: string) => page.locator(`[data-part="${name}"]`);

/** Waits until the connection's pill shows a state. */
export async function reaches(page: Page, state: string): Promise<void> {
  await page.locator(`.pill[data-state="${state}"]`).waitFor();
}

/** Enters the API key and waits for live prices. */
export async function signIn(page: Page, apiKey: string): Promise<void> {
  await page.getByLabel('API key', { exact: true }).fill(apiKey);
  await page.keyboard.press('Enter');
  await reaches(page, 'live');
  await page.locator('.price-card').first().waitFor();
}

/** Waits until `read` yields another value than `before`; returns that. */
export async function changes(read: () => Promise<string | null>, before: string | null): Promise<string | null> {
  for (;;) {
    const now = await read();
    if (now !== before) return now;
  }
}
