/** Entry point of `node dist/main`. Must run on Node 18, because an older Node uses it to start the Node in `node_modules`. */
import { reexec, runtimeIsNewEnough } from './reexec.ts';

// Without a listener for SIGUSR1, Node would open its inspector on this signal.
process.on('SIGUSR1', () => {});

if (runtimeIsNewEnough()) {
  const { run } = await import('./run.ts');
  await run();
} else {
  await reexec();
}
