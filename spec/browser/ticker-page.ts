import type { Page } from 'playwright-core';

/** What the card of a symbol shows in one of its parts. */
export const shown = (page: Page, symbol: string, name: string): Promise<string | null> =>
  page.locator(`[data-symbol="${symbol}"]`).locator(`[data-part="${name}"]`).first().textContent();

/** Reads a price that moves with every tick. */
export const price = (page: Page) => () => shown(page, 'BTC-USD', 'price');
