import { type Bounds, RESIDENT_MIB } from './bounds.ts';
import { allowedLeft, descriptorsLeft, type Footprint, memoryLeft, residentLeft } from './footprint.ts';
import type { Sight } from './neighbours.ts';

/** Number of neighbours' stream clients. */
const STREAMS = 20;
/** Noise of the machine is allowed twice: delays of the process and of the neighbour add up. */
const NOISE_FACTOR = 2;

/** Everything observed during a scenario. */
export interface Observation {
  sight: Sight;
  peakMib: number;
  /** Footprints of the new process, before the attack, and after it. */
  start: Footprint;
  before: Footprint;
  after: Footprint;
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
  const { sight, peakMib, start, before, after, actions, outcomes } = observed;
  const lines = [...observed.errors];
  const over = (what: string, value: number, bound: number) => {
    if (value > bound) lines.push(`${what} ${value.toFixed(0)} over ${bound.toFixed(0)}`);
  };
  over('tick late by ms:', sight.tickMs, bounds.tickMs);
  over('health answer after ms:', sight.healthMs, bounds.healthMs);
  over('peak of memory in MiB:', peakMib, bounds.peakMib);
  over('memory left in MiB:', memoryLeft(before, after), allowedLeft(before, bounds.keptMib));
  over('resident memory left in MiB:', residentLeft(start, after), RESIDENT_MIB + bounds.keptMib);
  over('descriptors left:', descriptorsLeft(before, after), 0);
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
