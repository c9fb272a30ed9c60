import { setTimeout } from 'node:timers/promises';
import { openDescriptors, peakResidentBytes, resetPeak } from '../support/proc.ts';
import { type Bounds, LEFT_SHARE, RESIDENT_MIB } from './bounds.ts';
import type { Memory, Target } from './target.ts';

const MIB = 1024 * 1024;
/**
 * Longest wait until the memory and descriptors are back within the bounds. The services close connections without a
 * reader within ten seconds, but a loaded machine takes longer to read an attack's data.
 */
const SETTLE_MS = 45_000;
const REST_MS = 100;
/** Descriptors that vary at rest, such as the connection of a probe. */
const DESCRIPTORS_AT_REST = 3;

/** Resources of a process. */
export interface Footprint extends Memory {
  descriptors: number;
}

/** Footprints of the new process, before an attack, and after it. */
export interface Footprints {
  start: Footprint;
  before: Footprint;
  after: Footprint;
}

/** Measures a process and resets its peak memory. */
export async function measure(target: Target): Promise<Footprint> {
  const memory = await target.memory();
  resetPeak(target.pid);
  return { ...memory, descriptors: await descriptorsAtRest(target) };
}

/** Waits until no descriptor is opened or closed for a moment. A process that listens still starts threads. */
async function descriptorsAtRest({ pid }: Target): Promise<number> {
  let before: number;
  let descriptors = openDescriptors(pid);
  do {
    before = descriptors;
    await setTimeout(REST_MS);
    descriptors = openDescriptors(pid);
  } while (descriptors !== before);
  return descriptors;
}

/** Returns the growth of the peak memory since {@link measure}, in MiB. */
export function peakMib({ pid }: Target, { resident }: Footprint): number {
  return Math.max(0, peakResidentBytes(pid) - resident) / MIB;
}

/** Waits until the process is back within the bounds, or until the timeout, and measures it. */
export async function settle(target: Target, before: Footprint, bounds: Bounds): Promise<Footprint> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const after = { ...(await target.memory()), descriptors: openDescriptors(target.pid) };
    const left = leftOf({ start: before, before, after }, bounds);
    const isBack = left.memory <= left.allowedMemory && left.descriptors === 0;
    if (isBack || performance.now() > deadline) return after;
    await setTimeout(250);
  }
}

/** Resources that a process has kept since earlier measurements, in MiB, and the allowed growth of its memory. */
export function leftOf({ start, before, after }: Footprints, { keptMib }: Bounds) {
  return {
    /** Growth of objects and buffers. */
    memory: (after.live - before.live) / MIB,
    allowedMemory: (before.live * LEFT_SHARE) / MIB + keptMib,
    /** Growth of the resident memory since the start of the process. */
    resident: (after.resident - start.resident) / MIB,
    allowedResident: RESIDENT_MIB + keptMib,
    /** Number of descriptors left open. */
    descriptors: Math.max(0, after.descriptors - before.descriptors - DESCRIPTORS_AT_REST),
  };
}
