import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export const residentBytes = (pid: number): number => memory(pid, 'VmRSS');

export const peakResidentBytes = (pid: number): number => memory(pid, 'VmHWM');

/** Resets the peak resident memory of a process (proc(5)). */
export const resetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5');

function memory(pid: number, field: string): number {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) * 1024;
}

/** Returns the seconds of CPU that all threads have used; to the nanosecond, where `stat` counts hundredths. */
export function cpuSeconds(pid: number): number {
  const threads = `/proc/${pid}/task`;
  const used = (thread: string) => Number(readFileSync(`${threads}/${thread}/schedstat`, 'utf8').split(' ')[0]);
  return readdirSync(threads).reduce((sum, thread) => sum + used(thread), 0) / 1e9;
}

export const openDescriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** Returns the number of threads of a process, including Node's internal ones. */
export const threadCount = (pid: number): number => readdirSync(`/proc/${pid}/task`).length;

/** Returns the paths of the files that a process has open, and `socket:[…]` for each socket. */
export function openFiles(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return [readlinkSync(`${folder}/${fd}`)];
    } catch {
      // Closed since the folder was read.
      return [];
    }
  });
}

export const openSockets = (pid: number): number => openFiles(pid).filter((file) => file.startsWith('socket:')).length;

/** Returns the bytes of live objects on the heap after a full garbage collection. */
export async function liveHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  // Reactions of settled promises keep objects alive until they have run.
  await new Promise(setImmediate);
  collect();
  return process.memoryUsage().heapUsed;
}
