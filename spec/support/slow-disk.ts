import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from './cleanup.ts';

/** Library that delays every sync of a file, then performs it. */
const SOURCE = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slowly(const char *name, int file) {
  int (*sync)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
  usleep(1000 * atoi(getenv("SYNC_MS")));
  return sync(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
`;

/** Compiles the library. Returns the settings of a process whose syncs take at least `syncMs` longer. */
export async function slowDisk(syncMs: number): Promise<Record<string, string>> {
  const folder = await temporaryFolder();
  const [source, library] = [join(folder, 'slow-sync.c'), join(folder, 'slow-sync.so')];
  await writeFile(source, SOURCE);
  await promisify(execFile)('gcc', ['-shared', '-fPIC', '-O2', '-o', library, source, '-ldl']);
  return { LD_PRELOAD: library, SYNC_MS: `${syncMs}` };
}
