/**
 * Preloaded into the program under attack. On SIGUSR2, its main thread collects garbage and writes its memory use to
 * `MEMORY_PROBE_FILE`, so neither a listener nor standard output is needed.
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
    // Returns memory to the system, as V8 does after some idle time.
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    const { rss, heapUsed, external } = process.memoryUsage();
    writeFileSync(`${file}.new`, JSON.stringify({ resident: rss, live: heapUsed + external }));
    renameSync(`${file}.new`, file);
  });
}
