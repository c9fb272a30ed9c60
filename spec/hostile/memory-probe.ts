/**
 * Loaded before the program under attack. At SIGUSR2, its main thread collects garbage and writes its memory use to
 * `MEMORY_PROBE_FILE`, which needs neither a listener nor standard output.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';

const file = process.env.MEMORY_PROBE_FILE;

if (isMainThread && file !== undefined) {
  process.on('SIGUSR2', () => {
    setFlagsFromString('--expose-gc');
    const collect: (how: object) => void = runInNewContext('gc');
    // Returns memory to the system as V8 does when a process is idle for a while.
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    const { rss, heapUsed, external } = process.memoryUsage();
    writeFileSync(`${file}.new`, JSON.stringify({ resident: rss, live: heapUsed + external }));
    renameSync(`${file}.new`, file);
  });
}
