import type { Page } from 'playwright-core';

/** Time to undo a redrive, purge or cancellation, and time for which its result is shown, in milliseconds. */
type HeldDelay = 8_000 | 6_000;

/** Holds back the page's timers of an undo, until {@link elapse} runs them. Call it before the page loads. */
export const holdTimers = (page: Page) =>
  page.addInitScript(() => {
    const held = new Map<number, { callback(): void; delay: number }>();
    const { setTimeout: start, clearTimeout: stop } = window;
    let id = 0;
    Object.assign(window, {
      setTimeout(callback: () => void, delay: number) {
        if (delay !== 8_000 && delay !== 6_000) return start(callback, delay);
        id -= 1;
        held.set(id, { callback, delay });
        return id;
      },
      clearTimeout: (timer: number) => held.delete(timer) || stop(timer),
      elapse(wanted: number) {
        for (const [timer, { callback, delay }] of held) if (delay === wanted && held.delete(timer)) callback();
      },
    });
  });

export const elapse = (page: Page, delay: HeldDelay) =>
  // @ts-expect-error: defined above
  page.evaluate((wanted) => window.elapse(wanted), delay);
