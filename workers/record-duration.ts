import type { Durations } from './messages.ts';

/** Adds a duration in seconds to the shared histogram number `index`. */
export function recordDuration({ bounds, cells }: Durations, index: number, seconds: number): void {
  const size = bounds.length + 2;
  const values = new Float64Array(cells, index * size * Float64Array.BYTES_PER_ELEMENT, size);
  let bucket = 0;
  while (bucket < bounds.length && seconds > (bounds[bucket] as number)) bucket += 1;
  values[bucket] = (values[bucket] as number) + 1;
  values[size - 1] = (values[size - 1] as number) + seconds;
}
