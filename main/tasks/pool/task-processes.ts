import { fork } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { queueOptionsSymbol } from 'piscina';
import type {
  FromTaskProcess,
  FromTaskThread,
  TaskAnswer,
  TaskProcessStart,
  TaskThreadStart,
  ToTaskProcess,
  ToTaskThread,
} from '../../../workers/tasks/messages.ts';
import { threadFile } from '../../threads/supervised-thread.ts';

const STABLE_AFTER_MS = 10_000;
/** Delay of the second of several consecutive replacements of unstable processes. Doubles with each further one. */
const RELOAD_DELAY_MS = 50;
/** Much less than the time limit for a process to load, which includes the delay. */
const LONGEST_RELOAD_DELAY_MS = 5_000;

/** The part of Piscina that the pool uses. */
export interface TaskThreads extends EventEmitter {
  readonly threads: readonly (Pick<EventEmitter, 'once'> & { threadId: number; terminate(): Promise<unknown> })[];
  run(message: ToTaskThread): Promise<TaskAnswer>;
  destroy(): Promise<void>;
}

/**
 * Child processes with one task thread each, behind the interface of Piscina. Needed because V8 aborts a process if one
 * allocation is larger than the rest of a thread's heap.
 */
export class TaskProcesses extends EventEmitter implements TaskThreads {
  readonly threads: TaskProcess[] = [];
  readonly #start: TaskThreadStart;
  readonly #aborts: BroadcastChannel;
  #isDestroyed = false;
  /** Number of consecutive processes that ended soon after they had loaded, without a task in flight. */
  #unstable = 0;

  constructor(start: TaskThreadStart, count: number) {
    super();
    this.#start = start;
    try {
      while (this.threads.length < count) this.#add();
    } catch (error) {
      for (const thread of this.threads) void thread.terminate();
      throw error;
    }
    this.#aborts = new BroadcastChannel(start.abortChannel);
    this.#aborts.onmessage = ({ data: abort }) => {
      for (const thread of this.threads) thread.send({ abort });
    };
  }

  /** Runs a task in the process that Piscina's option for a task names. Never settles if the process ends meanwhile. */
  run(message: ToTaskThread): Promise<TaskAnswer> {
    const { id } = (message as unknown as Record<symbol, { id: number }>)[queueOptionsSymbol] ?? {};
    const thread = this.threads.find(({ threadId }) => threadId === id);
    return thread?.run(message) ?? Promise.reject(new Error('the process has ended'));
  }

  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    this.#aborts.close();
    await Promise.all(this.threads.map((thread) => thread.terminate()));
  }

  #add(loadDelayMs = 0): TaskProcess {
    const thread = new TaskProcess({ ...this.#start, loadDelayMs }, (message) => this.emit('message', message));
    this.threads.push(thread);
    thread.once('exit', () => {
      this.threads.splice(this.threads.indexOf(thread), 1);
      if (this.#isDestroyed) return;
      if (thread.isLoaded) this.#replace(thread);
      this.emit('workerDestroy');
    });
    return thread;
  }

  /** Delays the load of the new process if several have ended soon after they had loaded, without a task in flight. */
  #replace({ isBusy, loadedAt }: TaskProcess): void {
    const isStable = isBusy || performance.now() - loadedAt >= STABLE_AFTER_MS;
    this.#unstable = isStable ? 0 : this.#unstable + 1;
    const delayMs = this.#unstable < 2 ? 0 : RELOAD_DELAY_MS * 2 ** (this.#unstable - 2);
    try {
      const thread = this.#add(Math.min(delayMs, LONGEST_RELOAD_DELAY_MS));
      thread.loaded.then(
        () => this.emit('workerCreate', { id: thread.threadId }),
        () => {},
      );
    } catch (error) {
      // For example, there is no memory for another process.
      this.emit('error', error);
    }
  }
}

let processes = 0;

/** Child process with one task thread, with the part of a thread's interface that the pool uses. */
class TaskProcess extends EventEmitter<{ error: [Error]; exit: [reason: string] }> {
  readonly threadId = ++processes;
  readonly loaded: Promise<void>;
  loadedAt = Number.POSITIVE_INFINITY;
  readonly #child = fork(threadFile('tasks/task-process'), {
    serialization: 'advanced',
    // In a session of its own, because Ctrl-C in a terminal would end it before this process has stopped its tasks.
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  readonly #answers = new Map<number, (answer: TaskAnswer) => void>();
  readonly #ended = Promise.withResolvers<void>();

  constructor(start: TaskProcessStart, onMessage: (message: FromTaskThread) => void) {
    super();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.loaded = promise;
    // A process that ends before anything waits for it must not cause an unhandled rejection.
    promise.catch(() => {});
    let threadEnd: string | undefined;
    this.#child.on('message', (message: FromTaskProcess) => {
      if ('answer' in message) {
        this.#answers.get(message.run)?.(message.answer);
        this.#answers.delete(message.run);
      } else if ('message' in message) onMessage(message.message);
      else if ('threadEnd' in message) threadEnd = message.threadEnd;
      else {
        this.loadedAt = performance.now();
        resolve();
      }
    });
    const end = (reason: string) => {
      reject(new Error(threadEnd ?? reason));
      this.emit('exit', threadEnd === undefined ? `process died: ${reason}` : `thread died: ${threadEnd}`);
      this.#ended.resolve();
    };
    // Unlike `exit`, `close` follows the last message.
    this.#child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
    this.#child.on('error', ({ message }) => this.#child.pid === undefined && end(message));
    // A process that could not be created has no channel.
    if (this.#child.connected) this.#child.send(start, () => {});
  }

  get isLoaded(): boolean {
    return this.loadedAt !== Number.POSITIVE_INFINITY;
  }

  get isBusy(): boolean {
    return this.#answers.size > 0;
  }

  run(message: ToTaskThread): Promise<TaskAnswer> {
    if ('selfTest' in message) return this.loaded as Promise<never>;
    this.send(message);
    return new Promise((resolve) => this.#answers.set(message.run, resolve));
  }

  /** If a message cannot be sent, the process has ended. */
  send(message: ToTaskProcess): void {
    this.#child.send(message, () => {});
  }

  async terminate(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended.promise;
  }
}
