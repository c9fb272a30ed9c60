import { LONGEST_WINDOW } from './history.ts';

/** Response of `GET /prices/history`: ticks, oldest first. Every array has one element per tick. */
export interface PastPrices {
  interval_ms: number;
  /** Unix times. */
  timestamps: number[];
  prices: Readonly<Record<string, number[]>>;
}

/** Requests the prices of the last 15 minutes. Returns undefined if the request fails. */
export async function requestPastPrices(token: string): Promise<PastPrices | undefined> {
  try {
    const response = await fetch(`/prices/history?seconds=${LONGEST_WINDOW}`, {
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(10_000),
    });
    return response.ok ? await response.json() : undefined;
  } catch {
    return undefined;
  }
}
