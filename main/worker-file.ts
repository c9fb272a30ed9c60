import { extname } from 'node:path';

/** Where the code of a worker thread lies: beside this code, as TypeScript or compiled like it. */
export function workerFile(name: 'migrate' | 'retention' | 'task' | 'ticker'): URL {
  return new URL(`../workers/${name}${extname(import.meta.filename)}`, import.meta.url);
}
