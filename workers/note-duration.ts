import type { Durations } from './messages.ts';

/** Counts a duration in the `place`-th distribution of those that lie in `durations`. */
export function noteDuration({ bounds, cells }: Durations, place: number, seconds: number): void {
  const size = bounds.length + 2;
  const values = new Float64Array(cells, place * size * Float64Array.BYTES_PER_ELEMENT, size);
  let range = 0;
  while (range < bounds.length && seconds > (bounds[range] as number)) range += 1;
  values[range] = (values[range] as number) + 1;
  values[size - 1] = (values[size - 1] as number) + seconds;
}
