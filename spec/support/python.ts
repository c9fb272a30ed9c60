import { spawnSync } from 'node:child_process';
import { lacking, program } from './requirements.ts';

/** Path of a Python with the package `websockets`: the first on the PATH, or Debian's. */
export const python = [program('python3'), '/usr/bin/python3'].find(
  (each) => each !== undefined && spawnSync(each, ['-c', 'import websockets']).status === 0,
);

export const lackingPython =
  python === undefined ? lacking('python3 with websockets', 'python3-websockets') : undefined;
