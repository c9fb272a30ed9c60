import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { FromTaskThread, TaskAnswer, TaskRequest, TaskThreadStart, ToTaskThread } from '../tasks/messages.ts';

/** Thread that runs tasks, in this process or in a child process. */
export interface TaskThread {
  /** Resolves when the thread can run tasks. Never rejects. */
  readonly loaded: Promise<void>;
  /** Does not resolve if the thread ends meanwhile. */
  run(request: TaskRequest): Promise<TaskAnswer>;
  /** Resolves when the thread has ended. */
  terminate(): Promise<unknown>;
}

export interface TaskThreadListener {
  onMessage(message: FromTaskThread): void;
  /** Called at an uncaught error. The thread must get no more tasks. */
  onError(error: Error | null): void;
  /** Called once, after the last message. */
  onEnd(reason: string): void;
}

const FILE = new URL(`../tasks/task-worker${extname(import.meta.filename)}`, import.meta.url);

/**
 * Starts a thread in a Piscina of its own, because a Piscina with a thread that fails to load starts no other, and keeps
 * tasks for it forever.
 */
export function startTaskThread(
  start: TaskThreadStart,
  { onMessage, onError, onEnd }: TaskThreadListener,
  file = FILE,
): TaskThread {
  const piscina = new Piscina<ToTaskThread, TaskAnswer>({
    filename: fileURLToPath(file),
    // The first task starts the thread, and no other thread follows it.
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: Number.POSITIVE_INFINITY,
    concurrentTasksPerWorker: start.capacity,
    workerData: start,
    resourceLimits: { maxOldGenerationSizeMb: start.memoryMb },
    recordTiming: false,
    // By default, Piscina stops the event loop of an idle thread, which would delay aborts and the timers of
    // handlers that have ended. The option `atomics` would also keep the main thread from receiving several answers in one turn.
    env: { ...process.env, PISCINA_DISABLE_ATOMICS: '1' },
  });
  piscina.on('message', onMessage);
  // Handled by the listeners of the thread.
  piscina.on('error', () => {});
  const loaded = new Promise<void>((resolve) =>
    piscina.run({ selfTest: true }).then(
      () => resolve(),
      () => {},
    ),
  );
  const [thread] = piscina.threads as [Worker];
  let failure: string | undefined;
  thread.once('error', (error: Error | null) => {
    failure = error?.message;
    onError(error);
  });
  // Earlier messages of the thread, such as an `ack`, have arrived by then.
  thread.once('exit', (code) => onEnd(`thread died: ${failure ?? `exit code ${code}`}`));
  return { loaded, run: (request) => piscina.run(request), terminate: () => thread.terminate() };
}
