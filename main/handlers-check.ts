import type { HandlersManifest, HandlersReport } from '../workers/handlers-manifest.ts';
import type { Config } from './config.ts';
import { runOneShotThread } from './one-shot-thread.ts';
import { workerFile } from './worker-file.ts';

const TIME_LIMIT_MS = 10_000;

/**
 * Loads the configured task handlers module in a separate thread, and returns the module's actions.
 *
 * @throws {Error} if the module cannot be used; the message names the module and the reason
 */
export async function checkHandlers(
  { handlers: module, memoryMb }: Pick<Config['tasks'], 'handlers' | 'memoryMb'>,
  timeLimitMs = TIME_LIMIT_MS,
): Promise<HandlersManifest> {
  if (module === undefined) return new Map();
  const fail = (reason: string): never => {
    throw new Error(`the handlers module ${module} cannot be used: ${reason}`);
  };
  const options = { workerData: { module }, timeLimitMs, memoryMb };
  const report = await runOneShotThread<HandlersReport>(workerFile('handlers-check'), options).catch(({ message }) =>
    fail(message),
  );
  return 'failure' in report ? fail(report.failure) : report.manifest;
}
