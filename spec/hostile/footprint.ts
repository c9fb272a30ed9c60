import { writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { openDescriptors, peakResidentBytes } from '../support/proc.ts';
import { type Bounds, LEFT_SHARE } from './bounds.ts';
import type { Memory, Target } from './target.ts';

const MIB = 1024 * 1024;
/**
 * Longest wait until the memory and descriptors are back within the bounds. The services close connections without a
 * reader within ten seconds.
 */
const SETTLE_MS = 15_000;
/** Descriptors that vary at rest, such as the connection of a probe. */
const DESCRIPTORS_AT_REST = 3;

/** Resources of a process. */
export interface Footprint extends Memory {
  descriptors: number;
}

/** Measures a process and resets its peak memory. */
export async function measure(target: Target): Promise<Footprint> {
  const memory = await target.memory();
  // 5 resets the peak (proc(5)).
  writeFileSync(`/proc/${target.pid}/clear_refs`, '5');
  return { ...memory, descriptors: openDescriptors(target.pid) };
}

/** Returns the growth of the peak memory since {@link measure}, in MiB. */
export function peakMib({ pid }: Target, { resident }: Footprint): number {
  return Math.max(0, peakResidentBytes(pid) - resident) / MIB;
}

/** Waits until the process is back within the bounds, or until the timeout, and measures it. */
export async function settle(target: Target, before: Footprint, { keptMib }: Bounds): Promise<Footprint> {
  const deadline = performance.now() + SETTLE_MS;
  for (;;) {
    const after = { ...(await target.memory()), descriptors: openDescriptors(target.pid) };
    const isBack = memoryLeft(before, after) <= allowedLeft(before, keptMib) && descriptorsLeft(before, after) === 0;
    if (isBack || performance.now() > deadline) return after;
    await setTimeout(250);
  }
}

/** Returns the growth of objects and buffers, in MiB. */
export function memoryLeft(before: Footprint, after: Footprint): number {
  return (after.live - before.live) / MIB;
}

/** Returns the allowed growth of objects and buffers, in MiB. */
export function allowedLeft({ live }: Footprint, keptMib: number): number {
  return (live * LEFT_SHARE) / MIB + keptMib;
}

/** Returns the growth of the resident memory since the start of the process, in MiB. */
export function residentLeft(start: Footprint, after: Footprint): number {
  return (after.resident - start.resident) / MIB;
}

/** Returns the number of descriptors left open. */
export function descriptorsLeft(before: Footprint, after: Footprint): number {
  return Math.max(0, after.descriptors - before.descriptors - DESCRIPTORS_AT_REST);
}
