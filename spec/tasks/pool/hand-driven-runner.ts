import type { BatchOutcome, BatchTask, RunningBatch } from '../../../main/tasks/pool/batch-runner.ts';
import type { AbortRequest, Acknowledgement, TaskProgress } from '../../../workers/messages.ts';

/** A task in a batch of a {@link HandDrivenRunner}. */
export interface RunningTask {
  body: string;
  /** Settles the delivery before the handler ends. */
  settle(acknowledgement: Acknowledgement): void;
  /** Reports progress before the handler ends. */
  report(progress: TaskProgress): void;
  end(outcome: BatchOutcome): void;
}

/** A batch whose tasks a spec ends one by one. */
export interface HandDrivenBatch {
  tasks: RunningTask[];
  /** Number of tasks that the thread has started. */
  started: number;
}

/** Replacement of the threads. A spec sets which tasks have started, and ends them with outcomes of its choice. */
export class HandDrivenRunner {
  readonly threads: number;
  readonly durations = [];
  readonly serving = true;
  readonly batches: HandDrivenBatch[] = [];
  readonly #open = new Set<RunningTask>();
  #isDestroyed = false;

  constructor(threads: number) {
    this.threads = threads;
  }

  /** Bodies of all tasks, in the order of the batches. */
  get bodies(): string[] {
    return this.tasks.map(({ body }) => body);
  }

  /** Concatenated bodies of each batch. */
  get given(): string[] {
    return this.batches.map(({ tasks }) => tasks.map(({ body }) => body).join(''));
  }

  get tasks(): RunningTask[] {
    return this.batches.flatMap(({ tasks }) => tasks);
  }

  run(tasks: readonly BatchTask[]): RunningBatch {
    const ended = tasks.map(() => Promise.withResolvers<BatchOutcome>());
    const running = tasks.map(({ body, onSettled, onProgress }, index): RunningTask => {
      const task: RunningTask = {
        body,
        settle: onSettled,
        report: onProgress,
        end: (outcome) => {
          this.#open.delete(task);
          ended[index]?.resolve(outcome);
        },
      };
      this.#open.add(task);
      return task;
    });
    const batch = { tasks: running, started: tasks.length };
    this.batches.push(batch);
    if (this.#isDestroyed) void this.destroy();
    const kept = () => batch.tasks.length;
    const outcomes = async () => {
      const all: BatchOutcome[] = [];
      for (let index = 0; index < kept(); index++)
        all.push(await (ended[index] as PromiseWithResolvers<BatchOutcome>).promise);
      return all;
    };
    return {
      outcomes: outcomes(),
      started: () => Math.min(batch.started, kept()),
      reclaim: () => {
        for (const task of batch.tasks.splice(batch.started)) this.#open.delete(task);
        return kept();
      },
      cancel: (index) => this.cancelled.push(batch.tasks[index]?.body as string),
    };
  }

  /** Ends the tasks of a batch. Without outcomes, all of them return. */
  end(index: number, ...outcomes: BatchOutcome[]): void {
    for (const [at, task] of [...(this.batches[index]?.tasks ?? [])].entries()) {
      task.end(outcomes[at] ?? outcomes[0] ?? { ended: 'returned' });
    }
  }

  /** Bodies of the cancelled tasks, in order. */
  readonly cancelled: string[] = [];

  /** Abort requests, in order. */
  readonly aborts: AbortRequest[] = [];

  abort(request: AbortRequest): void {
    this.aborts.push(request);
  }

  async destroy(): Promise<void> {
    this.#isDestroyed = true;
    for (const task of this.#open) task.end({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
  }
}
