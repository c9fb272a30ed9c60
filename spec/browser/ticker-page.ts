import type { Page } from 'playwright-core';

/** Time in milliseconds after which the page certainly shows its prices as stale. */
export const STALE_AFTER_MS = 4_000;

/** Script that sets the page's reconnect delay to more than 15 minutes, so that any earlier reconnect has another cause. */
export const LONG_RECONNECT = 'Math.random = () => 1_000';

export const waitLongToReconnect = (page: Page) => page.addInitScript(LONG_RECONNECT);

/** Returns the text of one part of a symbol's card. */
export const shown = (page: Page, symbol: string, name: string): Promise<string | null> =>
  page.locator(`[data-symbol="${symbol}"]`).locator(`[data-part="${name}"]`).first().textContent();

/** Returns a function that reads a price that changes with every tick. */
export const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');
