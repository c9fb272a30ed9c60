import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';

export function residentBytes(pid: number): number {
  return memory(pid, 'VmRSS');
}

/** Resets the peak resident memory of a process. Returns its resident memory in bytes. */
export function resetPeak(pid: number): number {
  // 5 resets the peak (proc(5)).
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return residentBytes(pid);
}

export function peakResidentBytes(pid: number): number {
  return memory(pid, 'VmHWM');
}

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

/** Returns the number of files, sockets and pipes that a process has open. */
export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Returns the number of threads of a process, including Node's internal ones. */
export function threadCount(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).length;
}

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

export function openSockets(pid: number): number {
  return openFiles(pid).filter((file) => file.startsWith('socket:')).length;
}
