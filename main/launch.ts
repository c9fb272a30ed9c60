import { reexec, runtimeIsNewEnough } from './reexec.ts';

/** Runs the services, or the program named by the first argument. Must be importable by Node 18. */
export async function launch(): Promise<void> {
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
}
