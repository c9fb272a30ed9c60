import { reexec, runtimeIsNewEnough } from './reexec.ts';

/** Runs the services, or the program that the first argument names. Node 18 must be able to import this file. */
export async function launch(): Promise<void> {
  // Without a listener, Node.js starts its inspector on SIGUSR1.
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
}
