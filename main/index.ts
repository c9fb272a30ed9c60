#!/usr/bin/env node
/**
 * Entry point of `node dist/main` and of the command `ticker-and-tasks`. Must run on Node 18, because an older Node uses it to start
 * the Node in `node_modules`.
 */
import { reexec, runtimeIsNewEnough } from './reexec.ts';

// Without a listener for SIGUSR1, Node would open its inspector on this signal.
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
