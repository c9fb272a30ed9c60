import type { Bounds } from './bounds.ts';
import { type Footprints, leftOf } from './footprint.ts';
import { type Sight, STREAMS } from './neighbours.ts';

/** Noise of the machine is allowed twice: delays of the process and of the neighbour add up. */
const NOISE_FACTOR = 2;

/** Everything observed during a scenario. */
export interface Observation extends Footprints {
  sight: Sight;
  peakMib: number;
  actions: number;
  outcomes: Record<string, number>;
  errors: string[];
}

/** Latencies without an attack. */
export interface Baseline {
  tickMs: number;
  healthMs: number;
}

/** Returns the bounds of this run: the stated ones, or a multiple of the machine's own delays if larger. */
export function effectiveBounds(bounds: Bounds, baseline: Baseline, { machineMs }: Sight): Bounds {
  const { tickMs, healthMs } = bounds;
  return {
    ...bounds,
    tickMs: Math.max(tickMs, NOISE_FACTOR * Math.max(baseline.tickMs, machineMs)),
    healthMs: Math.max(healthMs, NOISE_FACTOR * Math.max(baseline.healthMs, machineMs)),
  };
}

/** Describes each exceeded bound in one line. */
export function broken(observed: Observation, bounds: Bounds, correct: RegExp | undefined): string[] {
  const { sight, peakMib, actions, outcomes } = observed;
  const left = leftOf(observed, bounds);
  const lines = [...observed.errors];
  const over = (what: string, value: number, bound: number) => {
    if (value > bound) lines.push(`${what} ${value.toFixed(0)} over ${bound.toFixed(0)}`);
  };
  over('tick late by ms:', sight.tickMs, bounds.tickMs);
  over('health answer after ms:', sight.healthMs, bounds.healthMs);
  over('peak of memory in MiB:', peakMib, bounds.peakMib);
  over('memory left in MiB:', left.memory, left.allowedMemory);
  over('resident memory left in MiB:', left.resident, left.allowedResident);
  over('descriptors left:', left.descriptors, 0);
  if (!bounds.refusals) for (const [error, count] of Object.entries(sight.errors)) lines.push(`${count} × ${error}`);
  if (!bounds.disconnections) {
    over('ticks missed:', sight.missed, 0);
    for (const [reason, count] of Object.entries(sight.disconnections)) lines.push(`${count} streams ended: ${reason}`);
    if (sight.open !== STREAMS) lines.push(`${sight.open} of ${STREAMS} streams are open`);
    if (sight.ticks === 0) lines.push('no tick');
  }
  if (actions === 0) lines.push('the attack sent nothing');
  for (const outcome of Object.keys(outcomes)) {
    if (correct !== undefined && !correct.test(outcome)) lines.push(`wrong outcome: ${outcome}`);
  }
  return lines;
}
