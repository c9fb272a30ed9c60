import { extname } from 'node:path';

/** Returns the URL of a worker thread's module in `workers/`: a `.ts` file, or a `.js` file when compiled. */
export function threadFile(name: string): URL {
  return new URL(`../../workers/${name}${extname(import.meta.filename)}`, import.meta.url);
}
