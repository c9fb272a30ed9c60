#!/usr/bin/env node
/**
 * Entry point of `node dist/main` and of the `ticker-and-tasks` command. Must run on Node 18, because this file checks
 * the version of Node.js and, if the version is too old, starts the Node.js in `node_modules`.
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
