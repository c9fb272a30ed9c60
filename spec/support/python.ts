import { execFileSync } from 'node:child_process';
import { lacking, program } from './requirements.ts';

/** Path of a Python with the package `websockets`: the first on the PATH, or Debian's. */
export const python = [program('python3'), '/usr/bin/python3'].find((each) => {
  try {
    return each !== undefined && execFileSync(each, ['-c', 'import websockets'], { stdio: 'ignore' }) !== undefined;
  } catch {
    return false;
  }
});

/** Names the missing requirement, or undefined if there is such a Python. */
export const lackingPython =
  python === undefined ? lacking('python3 with websockets', 'python3-websockets') : undefined;
