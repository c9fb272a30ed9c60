import { computed, effect, type ReadonlySignal, signal, untracked } from '@preact/signals';
import { type BoardTask, isUnfinished, present } from './board-task.ts';
import type { Model } from './model.ts';
import { cancelTask, findTask, hasStatus } from './service.ts';
import type { TaskDetail } from './task-detail.ts';

/** Interval of requests for an unfinished task, in case an event was missed. */
const POLL_MS = 2_000;
const MIN_WAIT_MS = 250;

/** One task with its details, which are requested after each event of the task and each gap. */
export class WatchedTask {
  readonly id: string;
  readonly #model: Model;
  readonly #detail = signal<TaskDetail>();
  readonly #error = signal<Error>();
  /** Version of the known task when the details were requested. */
  readonly #seen = signal('');
  readonly #stops: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  readonly #isCancelling = signal(false);

  constructor(id: string, model: Model) {
    this.id = id;
    this.#model = model;
    const onVisible = () => this.#onVisible();
    document.addEventListener('visibilitychange', onVisible);
    this.#stops = [
      model.keep(id),
      effect(() => {
        model.gaps.value;
        untracked(() => this.read());
      }),
      effect(() => {
        model.version.value;
        if (versionOf(this.known) !== this.#seen.peek()) this.read();
      }),
      () => document.removeEventListener('visibilitychange', onVisible),
    ];
  }

  /** Task as known from events and lists. */
  get known(): BoardTask | undefined {
    return this.#model.get(this.id);
  }

  /** Details by the latest response or event. Its status is `loading` before the first and `unknown` without a task. */
  readonly detail: ReadonlySignal<TaskDetail> = computed(() => {
    this.#model.version.value;
    const { known } = this;
    const read = this.#detail.value ?? { id: this.id, status: 'loading' };
    if (known?.state === 'cancelled') return { ...read, status: known.state };
    if (known === undefined || isEnded(read)) return read;
    const { state: status, attempt, attempts, reason, limit, progress } = known;
    const isNewer = versionOf(known) !== this.#seen.value;
    // Only a response has the result or the details of a failure.
    if (!isNewer || status === 'completed' || status === 'failed') {
      return read.status === 'running' && status === 'running' ? { ...read, ...present({ progress }) } : read;
    }
    const { started_at_ms, run_at_ms, next_attempt_at_ms } = known;
    const times = { started_at_ms, run_at_ms, next_attempt_at_ms };
    const { progress: _, ...rest } = read;
    return { ...rest, status, ...present({ attempt, attempts, reason, limit, progress, ...times }) };
  });

  /** Error of the last request, or undefined if it succeeded. */
  get error(): ReadonlySignal<Error | undefined> {
    return this.#error;
  }

  /** Whether a cancellation was requested, so that an unknown task counts as cancelled. */
  get isCancelling(): boolean {
    return this.#isCancelling.value;
  }

  /**
   * Requests the cancellation once. An unknown (404) or finished (409) task is no error, because its state is shown.
   *
   * @returns whether the task is cancelled, or false while its handler still runs
   */
  async cancel(): Promise<boolean> {
    if (this.#isCancelling.peek()) return false;
    this.#isCancelling.value = true;
    try {
      return await cancelTask(this.id);
    } catch (error) {
      this.#isCancelling.value = false;
      if (!hasStatus(error, 404, 409)) throw error;
      return true;
    } finally {
      this.read();
    }
  }

  /** Requests the details, but at most every {@link MIN_WAIT_MS} milliseconds. */
  read(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    const wait = this.#readAt + MIN_WAIT_MS - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.read(), wait);
      return;
    }
    this.#readAt = performance.now();
    const seen = versionOf(this.known);
    this.#seen.value = seen;
    findTask<TaskDetail>(this.id).then(
      (detail) => this.#onAnswer(detail),
      (error: Error) => {
        this.#error.value = error;
        this.#poll();
      },
    );
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const stop of this.#stops) stop();
  }

  #onAnswer(found: TaskDetail | undefined): void {
    const earlier = this.#detail.peek();
    const isCancelled =
      this.known?.state === 'cancelled' || this.#isCancelling.peek() || earlier?.status === 'cancelled';
    this.#error.value = undefined;
    this.#detail.value = found ?? { ...earlier, id: this.id, status: isCancelled ? 'cancelled' : 'unknown' };
    if (!isUnfinished(this.#detail.value.status)) this.#isCancelling.value = false;
    else this.#poll();
  }

  #poll(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed || document.visibilityState === 'hidden') return;
    this.#timer = setTimeout(() => this.read(), POLL_MS);
  }

  #onVisible(): void {
    if (document.visibilityState === 'visible') this.read();
  }
}

/** Returns a text that changes whenever the task changes, except for its progress. */
function versionOf(task: BoardTask | undefined): string {
  return task === undefined ? '' : [task.state, task.attempt, task.attempts, task.ended_at_ms].join(' ');
}

function isEnded({ status }: TaskDetail): boolean {
  return status === 'cancelled' || status === 'unknown';
}
