import { type Sight, STREAMS } from './neighbours.ts';

export const MIB = 1024 * 1024;

/** Limits of the effects on neighbours during an attack, and of the resources in use after it. */
export interface Bounds {
  /** Longest time from a tick's due time to its arrival. */
  tickMs: number;
  healthMs: number;
  /** Growth of the peak resident memory during the attack, in MiB. */
  peakMib: number;
  /** Objects and buffers that the process keeps by design, in MiB, in addition to {@link LEFT_SHARE}. */
  keptMib: number;
  /** Whether submissions of neighbours may be refused or fail, because the scenario fills the queue. */
  refusals: boolean;
}

type Latencies = Pick<Bounds, 'tickMs' | 'healthMs'>;

/** Allowed growth of objects and buffers, as a share of their size at the start. */
const LEFT_SHARE = 0.2;

/**
 * Allowed growth of the resident memory since the start, in MiB. Allocators do not return all pages of bodies (64 MiB),
 * responses (128) and the thread that parses bodies (64), with a quarter of it for garbage, nor 64 of each task thread.
 */
const RESIDENT_MIB = 448;

/** Descriptors that vary at rest, such as the connection of a probe. */
const DESCRIPTORS_AT_REST = 3;

export const usualBounds: Bounds = {
  tickMs: 100,
  healthMs: 250,
  // Twice the budgets of request and response bodies (64 and 128 MiB), for garbage that is not collected yet.
  peakMib: 384,
  keptMib: 0,
  refusals: false,
};

/** Bounds for hundreds of connections that send data whose parsing takes tens of milliseconds a packet. */
export const floodBounds: Partial<Bounds> = { tickMs: 250, healthMs: 500 };

/** Noise of the machine is allowed twice: delays of the process and of the neighbour add up. */
const NOISE_FACTOR = 2;

/** Resources of a process after a garbage collection. Memory is in bytes. */
export interface Footprint {
  resident: number;
  /** Objects and buffers of the main thread. */
  live: number;
  descriptors: number;
}

export interface Observation extends Record<'start' | 'before' | 'after', Footprint> {
  sight: Sight;
  peakMib: number;
  actions: number;
  outcomes: Record<string, number>;
  errors: string[];
}

/** Resources that a process has kept since earlier measurements, in MiB, and the allowed growth of its memory. */
export function leftOf({ start, before, after }: Pick<Observation, 'start' | 'before' | 'after'>, { keptMib }: Bounds) {
  return {
    memory: (after.live - before.live) / MIB,
    allowedMemory: (before.live * LEFT_SHARE) / MIB + keptMib,
    resident: (after.resident - start.resident) / MIB,
    allowedResident: RESIDENT_MIB + keptMib,
    descriptors: Math.max(0, after.descriptors - before.descriptors - DESCRIPTORS_AT_REST),
  };
}

/** Returns the bounds of this run: the stated ones, or a multiple of the machine's own delays if larger. */
export function effectiveBounds(bounds: Bounds, baseline: Latencies, { machineMs }: Sight): Bounds {
  const noiseMs = (name: keyof Latencies) => NOISE_FACTOR * Math.max(baseline[name], machineMs);
  const tickMs = Math.max(bounds.tickMs, noiseMs('tickMs'));
  return { ...bounds, tickMs, healthMs: Math.max(bounds.healthMs, noiseMs('healthMs')) };
}

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
  over('ticks missed:', sight.missed, 0);
  for (const [reason, count] of Object.entries(sight.disconnections)) lines.push(`${count} streams ended: ${reason}`);
  if (sight.open !== STREAMS) lines.push(`${sight.open} of ${STREAMS} streams are open`);
  if (sight.ticks === 0) lines.push('no tick');
  if (actions === 0) lines.push('the attack sent nothing');
  for (const outcome of Object.keys(outcomes))
    if (correct !== undefined && !correct.test(outcome)) lines.push(`wrong outcome: ${outcome}`);
  return lines;
}
