import { Emitter } from './emitter.ts';
import { closedClient, ServiceError } from './errors.ts';
import { EventStream } from './event-stream.ts';
import type { HttpClient } from './http-client.ts';
import type { Status } from './reconnection.ts';
import type { QueueEvent, TaskChange, TaskEvent, TaskRow, TaskState, Times } from './task-state.ts';

/** News of a task for its followers. A lost task cannot be followed any more. */
export type TaskNews =
  | Exclude<TaskChange, { event: 'completed' }>
  | { event: 'completed'; row: TaskRow & Times }
  | { event: 'lost'; error: Error };

interface Followed {
  id: string;
  emitter: Emitter<{ news: TaskNews }>;
  /** Text of the latest news, so that news in both an event and a response are reported once. */
  told: string;
  /** Number of events, so that a response from before an event is recognized. */
  events: number;
  /** Whether events are missing, so that a task that the service does not know was cancelled or lost. */
  hasGap: boolean;
  timer: ReturnType<typeof setTimeout> | undefined;
  delayMs: number;
}

/** First delay between requests for a task without events. Later delays are longer, in case the stream is buffered. */
const FIRST_LOOK_MS = 1_000;
const LOOK_GROWTH = 1.5;
const MAX_LOOK_MS = 15_000;
/** Average time between two requests after a gap, when all tasks are read. */
const SPREAD_MS = 5;
/** Time for which the stream stays open after its last use, in case another task follows. */
const LINGER_MS = 1_000;

const ENDS: readonly TaskNews['event'][] = ['completed', 'failed', 'cancelled', 'lost'];

export interface StreamEvents {
  status: Status;
  event: TaskEvent | QueueEvent;
}

/** Follows tasks with one event stream, and reads them when events may be missing. */
export class TaskFollower {
  readonly #http: HttpClient;
  readonly #stream: EventStream;
  readonly #followed = new Map<string, Followed>();
  readonly #emitter = new Emitter<StreamEvents>(() => this.#keep());
  #linger: ReturnType<typeof setTimeout> | undefined;

  constructor(http: HttpClient) {
    this.#http = http;
    this.#stream = new EventStream(http, {
      onStatus: (status) => this.#emitter.emit('status', status),
      onEvents: (events) => {
        for (const event of events) this.#receive(event);
      },
    });
  }

  get status(): Status {
    return this.#stream.status;
  }

  on<Name extends keyof StreamEvents>(name: Name, listener: (value: StreamEvents[Name]) => void): () => void {
    return this.#emitter.on(name, listener);
  }

  /** Follows a task until it ends, or the returned function is called. */
  follow(id: string, listener: (news: TaskNews) => void): () => void {
    const task = this.#followed.get(id) ?? this.#add(id);
    const unfollow = task.emitter.on('news', listener);
    return () => {
      unfollow();
      if (!task.emitter.hasListeners('news')) this.#remove(task);
    };
  }

  close(): void {
    for (const task of [...this.#followed.values()]) this.#tell(task, { event: 'lost', error: closedClient() });
    clearTimeout(this.#linger);
    this.#stream.stop('closed');
  }

  #add(id: string): Followed {
    const task: Followed = {
      id,
      emitter: new Emitter(),
      told: '',
      events: 0,
      hasGap: false,
      timer: undefined,
      delayMs: FIRST_LOOK_MS,
    };
    this.#followed.set(id, task);
    // A stream that starts reports a gap, after which the task is read.
    this.#look(task, this.status.state === 'live' ? 0 : FIRST_LOOK_MS);
    this.#keep();
    return task;
  }

  #remove(task: Followed): void {
    clearTimeout(task.timer);
    if (this.#followed.get(task.id) === task) this.#followed.delete(task.id);
    this.#keep();
  }

  /** Keeps the stream open while it is used. */
  #keep(): void {
    clearTimeout(this.#linger);
    if (this.#http.closed.aborted) return;
    if (this.#followed.size > 0 || this.#emitter.hasListeners('event')) this.#stream.start();
    else this.#linger = setTimeout(() => this.#stream.stop('no task is followed'), LINGER_MS);
  }

  #receive(event: TaskEvent | QueueEvent): void {
    if ('id' in event) this.#apply(event);
    else if (event.event === 'gap')
      for (const task of this.#followed.values()) {
        // Without news, the task was only just submitted, or its follower has never known it.
        task.hasGap ||= task.told !== '' || task.events > 0;
        task.delayMs = FIRST_LOOK_MS;
        this.#look(task, Math.random() * SPREAD_MS * this.#followed.size);
      }
    this.#emitter.emit('event', event);
  }

  #apply(event: TaskEvent): void {
    const task = this.#followed.get(event.id);
    if (task === undefined || event.event === 'purged') return;
    task.events += 1;
    task.delayMs = FIRST_LOOK_MS;
    // Only the row has the output. That of a task that has acknowledged itself early comes when its handler returns.
    if (event.event === 'completed') this.#look(task, 0);
    else this.#tell(task, event);
  }

  /** Reads a task after a delay. */
  #look(task: Followed, delayMs: number): void {
    clearTimeout(task.timer);
    task.timer = setTimeout(() => void this.#read(task), delayMs);
  }

  async #read(task: Followed): Promise<void> {
    const { events } = task;
    const answer = await this.#http
      .request<TaskState>(`tasks/${encodeURIComponent(task.id)}`, { giveUpMs: 0, signal: this.#http.closed })
      .catch((error: Error) => error);
    if (this.#followed.get(task.id) !== task) return;
    const news = answer instanceof Error ? newsOfFailure(answer, task) : newsOf(answer);
    const isEnd = news !== undefined && ENDS.includes(news.event);
    if (news !== undefined && (isEnd || task.events === events)) this.#tell(task, news);
    if (isEnd) return;
    this.#look(task, task.delayMs);
    task.delayMs = Math.min(task.delayMs * LOOK_GROWTH, MAX_LOOK_MS);
  }

  #tell(task: Followed, news: TaskNews): void {
    const text = textOf(news);
    if (text === task.told) return;
    task.told = text;
    if (ENDS.includes(news.event)) this.#remove(task);
    task.emitter.emit('news', news);
  }
}

/** @param state undefined if the answer is 204, which is not the service's */
function newsOf(state: TaskState | undefined): TaskNews | undefined {
  switch (state?.status) {
    case 'completed':
      return { event: 'completed', row: state };
    case 'failed':
      return { ...state, event: 'failed' };
    case 'scheduled':
      return { event: 'scheduled', run_at_ms: state.run_at_ms };
    case 'retrying':
      return { ...state, event: 'retrying' };
    case 'running': {
      const { attempt, progress } = state;
      return progress === undefined ? { event: 'started', attempt } : { event: 'progress', attempt, progress };
    }
    default:
      return undefined;
  }
}

/**
 * Returns the end of a task that cannot be read. An unknown task may still run after it has acknowledged itself early,
 * unless events are missing.
 */
function newsOfFailure(error: Error & { isTransient?: boolean }, { hasGap }: Followed): TaskNews | undefined {
  const isUnknown = error instanceof ServiceError && error.status === 404;
  if (error.isTransient || (isUnknown && !hasGap)) return undefined;
  return { event: 'lost', error };
}

function textOf(news: TaskNews): string {
  const { event, attempt, attempts, progress } = news as Record<string, unknown>;
  return JSON.stringify([event, attempt, attempts, progress]);
}
