import { signal } from '@preact/signals';

const TICK_MS = 200;

/** Milliseconds since the epoch, five times per second while the page is visible. */
export const now = signal(Date.now());

setInterval(() => {
  if (document.visibilityState === 'visible') now.value = Date.now();
}, TICK_MS);
