/** Child process with one task thread, for `TASK_ISOLATION=process`. Ends with its parent, even if a handler blocks. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { BroadcastChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { systemClock } from '../shared/clock.ts';
import type { FromTaskProcess, TaskAnswer, TaskProcessStart, ToTaskProcess, ToTaskThread } from './messages.ts';

// The parent decides when to stop, also if a signal is sent to all processes of a service.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
// Not `process.exit`, which waits for a thread that is blocked.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
process.once('message', open);

function send(message: FromTaskProcess, sent?: () => void): void {
  process.send?.(message, undefined, {}, sent);
}

async function open({ loadDelayMs, ...start }: TaskProcessStart): Promise<void> {
  // No task comes before `isLoaded`, and aborts that arrive earlier concern other processes.
  await systemClock.sleep(loadDelayMs);
  const aborts = new BroadcastChannel(start.abortChannel);
  const pool = new Piscina<ToTaskThread, TaskAnswer>({
    filename: fileURLToPath(new URL(`./task-worker${extname(import.meta.filename)}`, import.meta.url)),
    minThreads: 1,
    maxThreads: 1,
    concurrentTasksPerWorker: start.overlap,
    workerData: start,
    resourceLimits: { maxOldGenerationSizeMb: start.memoryMb },
    recordTiming: false,
    env: { ...process.env, PISCINA_DISABLE_ATOMICS: '1' },
  });
  const [thread] = pool.threads;
  let failure: string | undefined;
  thread?.once('error', (error: Error | null) => {
    failure = error?.message;
  });
  thread?.once('exit', (code) => {
    send({ threadEnd: failure ?? `exit code ${code}` }, () => process.exit(1));
  });
  // The end of the thread is handled above.
  pool.on('error', () => {});
  pool.on('message', (message) => send({ message }));
  process.on('message', (message: ToTaskProcess) => {
    if ('abort' in message) aborts.postMessage(message.abort);
    else
      pool.run(message).then(
        (answer) => send({ run: message.run, answer }),
        () => {},
      );
  });
  pool.run({ selfTest: true }).then(
    () => send({ isLoaded: true }),
    () => {},
  );
}
