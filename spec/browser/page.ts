import { expect } from 'chai';
import type { Page } from 'playwright-core';
import { eventually } from '../support/until.ts';

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

/** Waits until `read` returns a value other than `before`, by default the current one. Returns the new value. */
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
