import type { Page } from 'playwright-core';

/** Text that a page has drawn on a canvas, and where its canvas is. */
export interface DrawnText {
  /** Symbol of the chart, or an empty string for a picture that is saved. */
  symbol: string;
  text: string;
  x: number;
  y: number;
}

/** Records the texts that the page draws on canvases. Call it before the page loads. */
export const recordDrawnTexts = (page: Page) =>
  page.addInitScript(() => {
    const drawn = new Map<HTMLCanvasElement, DrawnText[]>();
    Object.assign(window, { drawnTexts: () => [...drawn.values()].flat() });
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...area) {
      drawn.delete(this.canvas);
      clearRect.apply(this, area);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
      const { symbol = '' } = this.canvas.closest<HTMLElement>('.price-card')?.dataset ?? {};
      drawn.set(this.canvas, [...(drawn.get(this.canvas) ?? []), { symbol, text, x, y }]);
      fillText.call(this, text, x, y, ...more);
    };
  });

/** Returns the non-empty texts that are on the canvas of a symbol's chart. */
export async function drawnTexts(page: Page, symbol = 'BTC-USD'): Promise<DrawnText[]> {
  // @ts-expect-error: defined above
  const all: DrawnText[] = await page.evaluate(() => window.drawnTexts());
  return all.filter((each) => each.symbol === symbol && each.text !== '');
}
