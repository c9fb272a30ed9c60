#!/usr/bin/env node
/**
 * Entry point of `node dist/main` and of the `ticker-and-tasks` command. Must run on Node 18, because an older Node.js
 * uses this file to start the Node.js installed in `node_modules`.
 */
import { reexec, runtimeIsNewEnough } from './reexec.ts';

// Ignores SIGUSR1. By default, Node.js starts its inspector on this signal.
process.on('SIGUSR1', () => {});

const [name] = process.argv.slice(2);
if (!runtimeIsNewEnough()) {
  await reexec();
} else if (name === undefined) {
  const { run } = await import('./run.ts');
  await run();
} else {
  const { runProgram } = await import('./cli/programs.ts');
  await runProgram(name);
}
