/** Entry of `node dist/main`. Nothing here may need a Node newer than 18: an old one gets this far. */
import { handOver, runtimeIsNewEnough } from './runtime.ts';

// With a listener of its own, the process does not open Node's inspector at this signal.
process.on('SIGUSR1', () => {});

if (runtimeIsNewEnough()) {
  const { run } = await import('./run.ts');
  await run();
} else {
  await handOver();
}
