import { extname } from 'node:path';

/** Returns the URL of a worker thread's module: a `.ts` file, or a `.js` file when compiled. */
export function workerFile(
  name:
    | 'handlers-check'
    | 'migrate'
    | 'price-source-check'
    | 'retention'
    | 'submission-parser'
    | 'task-worker'
    | 'ticker',
): URL {
  return new URL(`../workers/${name}${extname(import.meta.filename)}`, import.meta.url);
}
