import type { Page } from 'playwright-core';

/** More than the time without a price after which the page calls its prices stale. */
export const STALE_AFTER_MS = 4_000;

/** Makes the page wait for a quarter of an hour and more before it reconnects, so that only another cause makes it. */
export const waitLongToReconnect = (page: Page) => page.addInitScript('Math.random = () => 1_000');

/** What the card of a symbol shows in one of its parts. */
export const shown = (page: Page, symbol: string, name: string): Promise<string | null> =>
  page.locator(`[data-symbol="${symbol}"]`).locator(`[data-part="${name}"]`).first().textContent();

/** Reads a price that moves with every tick. */
export const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');
