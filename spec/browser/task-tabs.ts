import type { BrowserContext, Page, Request } from 'playwright-core';
import { eventually } from '../support/until.ts';
import { reaches } from './chromium.ts';

/** Event streams that the tabs of a browser context have requested. */
export interface FollowedStreams {
  /** Every request of the stream, in order. */
  requests: Request[];
  /** Returns the tabs that hold a stream. */
  holders(): Page[];
  /** Waits until exactly the tab `page` holds a stream, or no tab if it is undefined. */
  heldBy(page: Page | undefined): Promise<unknown>;
}

/** Follows the event streams of all tabs in a browser context. */
export function followStreams(context: BrowserContext): FollowedStreams {
  const requests: Request[] = [];
  const open = new Set<Request>();
  context.on('request', (request) => {
    if (!request.url().endsWith('/tasks/events')) return;
    requests.push(request);
    open.add(request);
  });
  context.on('requestfailed', (request) => open.delete(request));
  context.on('requestfinished', (request) => open.delete(request));
  const holders = () => [...open].map((each) => each.frame().page()).filter((page) => !page.isClosed());
  return {
    requests,
    holders,
    heldBy: (page) =>
      eventually(holders, (found) =>
        page === undefined ? found.length === 0 : found.length === 1 && found[0] === page,
      ),
  };
}

/**
 * Slows `performance.now()` a hundredfold and disables `AbortSignal.timeout()`, so that no page of a context times out on a
 * slow machine. Retries and the detection of a silent tab are slow as well.
 */
export const allowSlowness = (context: BrowserContext) =>
  context.addInitScript(() => {
    const { now } = performance;
    performance.now = () => now.call(performance) / 100;
    AbortSignal.timeout = () => new AbortController().signal;
  });

/** Opens more tabs with a page's address in its context, and waits until they are live. */
export async function openTabs(page: Page, number: number): Promise<Page[]> {
  const tabs: Page[] = [];
  for (let i = 0; i < number; i++) {
    const tab = await page.context().newPage();
    await tab.goto(page.url());
    tabs.push(tab);
  }
  for (const tab of tabs) await reaches(tab, 'live');
  return tabs;
}

/** Makes a tab hidden or visible to its scripts. Playwright keeps all pages visible, so the property is replaced. */
export async function setVisible(page: Page, visible: boolean): Promise<void> {
  await page.evaluate(
    (state) => {
      Object.defineProperty(document, 'visibilityState', { configurable: true, get: () => state });
      document.dispatchEvent(new Event('visibilitychange'));
    },
    visible ? 'visible' : 'hidden',
  );
}
