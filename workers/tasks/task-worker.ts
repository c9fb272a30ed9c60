/** Worker thread of the pool. Runs tasks, and answers with the JSON text of their output. */
import { parentPort, workerData } from 'node:worker_threads';
import { readThrown } from '../shared/thrown.ts';
import { perform } from './actions.ts';
import type { FromTaskThread, TaskAnswer, TaskThreadStart, ToTaskThread } from './messages.ts';

// Piscina has read this setting of the pool. Handlers and their child processes must not inherit it.
delete process.env.PISCINA_DISABLE_ATOMICS;

const start: TaskThreadStart = workerData;
// Imported lazily, because most installations have no handlers module.
const { startHandlers } = start.module === undefined ? {} : await import('./module-handlers.ts');
const runHandler = await startHandlers?.(start.module ?? '', start);
const report = (message: FromTaskThread) => parentPort?.postMessage(message);

/** Always returns an answer, because Piscina would take `throw null` for a success. */
export default (message: ToTaskThread): TaskAnswer | Promise<TaskAnswer> | undefined => {
  if ('selfTest' in message) return undefined;
  const startedAt = performance.now();
  if (runHandler !== undefined) report({ run: message.run, started: true });
  const answer = (outcome: TaskAnswer['outcome']) => ({ outcome, ms: performance.now() - startedAt });
  try {
    const { run, body, attempt, traceparent } = message;
    const { id, action, data, created_at: createdAt } = JSON.parse(body);
    const ofModule = runHandler?.({ id, action, createdAt, attempt, traceparent }, data, run);
    if (ofModule !== undefined) return ofModule;
    return answer({ ended: 'returned', output: JSON.stringify(perform(action, data, start.rejectUnknown)) });
  } catch (error) {
    return answer({ ended: 'raised', ...readThrown(error) });
  }
};
