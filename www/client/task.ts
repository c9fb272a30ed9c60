import type { Grant } from './credentials.ts';
import { TaskCancelledError, TaskFailedError } from './errors.ts';
import type { Abortable, HttpClient } from './http-client.ts';
import type { TaskFollower, TaskNews } from './task-follower.ts';
import type { TaskChange, TaskProgress, TaskState, Times } from './task-state.ts';
import { abortable } from './waiting.ts';

type Fields<Event extends TaskChange['event']> = Omit<Extract<TaskChange, { event: Event }>, 'event'>;

/** End of a task that has completed. */
export interface Completed<Output> extends Times {
  output: Output;
}

/** Values for the listeners of a task, by event. */
export interface TaskListeners<Output> {
  accepted: object;
  scheduled: Fields<'scheduled'>;
  started: Fields<'started'>;
  progress: TaskProgress & { attempt: number };
  retrying: Fields<'retrying'>;
  completed: Completed<Output>;
  failed: Fields<'failed'>;
  cancelled: object;
  /** The task cannot be followed any more, because the service does not know it or refuses the client. */
  lost: { error: Error };
}

/** Task of the service. `Output` is what its handler returns. */
export class Task<Output = unknown> {
  readonly id: string;
  readonly #http: HttpClient;
  readonly #follower: TaskFollower;

  constructor(id: string, http: HttpClient, follower: TaskFollower) {
    this.id = id;
    this.#http = http;
    this.#follower = follower;
  }

  /** Follows the task until it ends. The first listeners also get its present state. @returns a function that removes it */
  on<Name extends keyof TaskListeners<Output>>(
    name: Name,
    listener: (value: TaskListeners<Output>[Name]) => void,
  ): () => void {
    return this.#follower.follow(this.id, (news) => {
      if (news.event === name) listener(fieldsOf(news) as TaskListeners<Output>[Name]);
    });
  }

  /**
   * Waits for the end of the task.
   *
   * @throws {TaskFailedError | TaskCancelledError} if it did not complete
   * @throws {ServiceError} if the service lost the task, or refuses the client. An unknown id has no end: pass a signal
   */
  async result({ signal }: Abortable = {}): Promise<Completed<Output>> {
    signal?.throwIfAborted();
    let unfollow = () => {};
    const end = new Promise<Completed<Output>>((resolve, reject) => {
      unfollow = this.#follower.follow(this.id, (news) => {
        if (news.event === 'completed') resolve(fieldsOf(news) as Completed<Output>);
        if (news.event === 'failed') reject(new TaskFailedError(this.id, news));
        if (news.event === 'cancelled') reject(new TaskCancelledError(this.id));
        if (news.event === 'lost') reject(news.error);
      });
    });
    return (signal === undefined ? end : abortable(end, signal)).finally(unfollow);
  }

  /** Requests the state of the task. */
  get(options: Abortable = {}): Promise<TaskState> {
    return this.#http.request(this.#path, options);
  }

  /** Cancels the task. @returns whether it is cancelled, or false while its handler still runs */
  async cancel(options: Abortable = {}): Promise<boolean> {
    const body = await this.#http.request<{ status: string } | undefined>(this.#path, { ...options, method: 'DELETE' });
    return body?.status !== 'cancelling';
  }

  /** Creates a token that can only read and follow this task, for a visitor's page. */
  token(options?: TaskTokenOptions): Promise<Grant> {
    return createToken(this.#http, this.#path, options);
  }

  /** Makes a scheduled or retrying task due now. */
  async run(options: Abortable = {}): Promise<void> {
    await this.#http.request(`${this.#path}/run`, { ...options, method: 'POST' });
  }

  get #path(): string {
    return `tasks/${encodeURIComponent(this.id)}`;
  }
}

function fieldsOf(news: TaskNews): object {
  if (news.event === 'progress') return { attempt: news.attempt, ...news.progress };
  if (news.event !== 'completed') return news;
  const { attempts, waited_ms, ran_ms, history, result } = news.row;
  return { output: result === null ? undefined : JSON.parse(result).output, attempts, waited_ms, ran_ms, history };
}

export interface TaskTokenOptions extends Abortable {
  /** Seconds, up to a day. The default is an hour. */
  expiresIn?: number | undefined;
  /** Whether the token can also cancel. */
  cancel?: boolean | undefined;
}

/** Creates a token for the tasks of a path. */
export function createToken(http: HttpClient, path: string, options: TaskTokenOptions = {}): Promise<Grant> {
  const { signal, expiresIn: expires_in, cancel } = options;
  return http.request(`${path}/token`, { method: 'POST', body: { expires_in, cancel }, isRepeatable: true, signal });
}
