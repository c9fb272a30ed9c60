import { leftOf } from './footprint.ts';
import type { Result } from './proving-ground.ts';

/** Heading of the lines of {@link line}. */
export const heading =
  'scenario                      sent     accepted/s  tick ms      health ms    submit ms  peak MiB  kept MiB  resident MiB  fds  machine ms  s';

/** Formats the observations of a scenario as one line, with bounds beside the latencies. */
export function line({ name, bounds, observed, seconds }: Result): string {
  const { sight, actions, before, after, peakMib } = observed;
  const left = leftOf(observed, bounds);
  const { tickMs, healthMs, submitMs, machineMs, accepted } = sight;
  const ofBound = (value: number, bound: number) =>
    `${value.toFixed(0)}/${Number.isFinite(bound) ? bound.toFixed(0) : '-'}`;
  const cells: [string, number][] = [
    [name, 30],
    [`${actions}`, 9],
    [(accepted / sight.seconds).toFixed(1), 12],
    [ofBound(tickMs, bounds.tickMs), 13],
    [ofBound(healthMs, bounds.healthMs), 13],
    [submitMs.toFixed(0), 11],
    [peakMib.toFixed(0), 10],
    [left.memory.toFixed(1), 10],
    [left.resident.toFixed(0), 14],
    [`${after.descriptors - before.descriptors}`, 5],
    [machineMs.toFixed(0), 12],
    [seconds.toFixed(1), 0],
  ];
  return cells
    .map(([text, width]) => text.padEnd(width))
    .join('')
    .trimEnd();
}

/** Formats the outcomes of an attack, the most frequent first. */
export function outcomes({ observed }: Result): string {
  const sorted = Object.entries(observed.outcomes).sort(([, one], [, other]) => other - one);
  return sorted.map(([outcome, count]) => `${count} × ${outcome}`).join(', ');
}
