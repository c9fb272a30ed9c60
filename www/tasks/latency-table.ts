import type { QueueStatus } from '../client/queue-api.ts';
import { part } from '../shared/dom.ts';
import { formatSpan } from './amounts.ts';

type Latency = QueueStatus['latency'];

const ROWS = ['waiting', 'running'] as const;
const NAMES = ['p50', 'p95', 'p99'] as const;

/** Table of the latency percentiles, with a bar per row. */
export class LatencyTable {
  readonly #host: HTMLElement;
  #shown = '';

  constructor(host: HTMLElement) {
    this.#host = host;
  }

  show(latency: Latency | undefined): void {
    const version = JSON.stringify(latency);
    if (latency === undefined || version === this.#shown) return;
    this.#shown = version;
    const known = ROWS.flatMap((name) => Object.values(latency[name] ?? {}).filter((value) => value !== undefined));
    // The scale is logarithmic, because waiting times can be a thousand times longer than running times.
    const low = Math.log(Math.max(Math.min(...known), 1e-4));
    const high = Math.max(Math.log(Math.max(...known)), low + 1);
    const share = (seconds: number) =>
      Math.min(Math.max((Math.log(Math.max(seconds, 1e-4)) - low) / (high - low), 0), 1);
    part(this.#host, 'latency-window', HTMLElement).textContent = `last ${formatSpan(latency.window_seconds * 1_000)}`;
    for (const row of ROWS) {
      const percentiles = latency[row];
      const range = part(this.#host, `${row}-range`, HTMLElement);
      range.toggleAttribute('data-empty', percentiles === null);
      for (const name of NAMES) {
        const text = percentiles === null ? '–' : formatSpan(percentiles[name] * 1_000);
        part(this.#host, `${row}-${name}`, HTMLElement).textContent = text;
        range.style.setProperty(`--${name}`, percentiles === null ? '0' : share(percentiles[name]).toFixed(3));
      }
    }
  }
}
