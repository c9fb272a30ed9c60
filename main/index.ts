/** Entry of `node dist/main`. Nothing here may need a Node newer than 18: an old one gets this far. */
import { handOver, runtimeIsNewEnough } from './runtime.ts';

if (runtimeIsNewEnough()) {
  const { run } = await import('./run.ts');
  await run();
} else {
  await handOver();
}
