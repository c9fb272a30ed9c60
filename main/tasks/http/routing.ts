import type { TaskView } from '../../../db/task-rows.ts';
import {
  type ActionLimits,
  type Awaitable,
  DatabaseUnavailable,
  KeyReused,
  QueueFull,
} from '../../../db/task-store.ts';
import type { Clock } from '../../../workers/shared/clock.ts';
import type { MainThreadCheck } from '../../../workers/submissions/parse-submission.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import { type ErrorName, HttpError } from '../../http/errors.ts';
import type { Handler, Resources } from '../../http/exact-router.ts';
import type { BodyBounds, ByteBudget } from '../../http/request-body.ts';
import type { TurnLimit } from '../../http/turn-limit.ts';
import type { Log } from '../../log/log.ts';
import type { Queue } from '../queue.ts';
import type { QueueMonitor } from '../queue-monitor.ts';
import type { Scheduler } from '../schedules/scheduler.ts';
import type { TaskEvents } from '../task-events.ts';
import type { AccessState, Action, Resource } from './access.ts';
import type { SubmissionThread } from './submission-thread.ts';

export interface RouterOptions {
  queue: Queue;
  events: TaskEvents;
  monitor: Pick<QueueMonitor, 'status' | 'history' | 'actions' | 'threadOf' | 'coveredSeconds'>;
  scheduler: Pick<Scheduler, 'put' | 'taskOf'>;
  bodies: BodyBounds;
  submissions: Pick<SubmissionThread, 'parse'>;
  /** Checks submissions against the rules of the handlers module. If undefined, all submissions are accepted. */
  check?: MainThreadCheck | undefined;
  rules: SubmissionRules;
  callbackHosts: readonly string[];
  /** Limits by action that hold unless a request has set others. */
  ownLimits: ReadonlyMap<string, ActionLimits>;
  responses: ByteBudget;
  turns: TurnLimit;
  clock: Clock;
  newTaskId: () => string;
  log: Log;
}

export type Routes = Resources<AccessState>;

/**
 * Returns a handler that answers 403 unless the actor's token allows the action. For `task`, the token must allow it on all
 * tasks. Without access control, every action is allowed.
 */
export function authorized(action: Action, resource: Resource, handle: Handler<AccessState>): Handler<AccessState> {
  return (ctx, next) => {
    if ((ctx.state.actor?.access(action, resource) ?? 'all') !== 'all') throw new HttpError('actionNotAllowed');
    return handle(ctx, next);
  };
}

export type Context = Parameters<Handler<AccessState>>[0];

/** Returns a handler that gets the view of the actor's token. Answers 403 if the token allows the action on no task. */
export function inView(
  action: Action,
  handle: (ctx: Context, view: TaskView | undefined) => unknown,
): Handler<AccessState> {
  return (ctx) => handle(ctx, viewOf(ctx, action));
}

/** Returns the tasks on which the actor's token allows an action. Undefined stands for all. @throws {HttpError} if none */
export function viewOf({ state }: Pick<Context, 'state'>, action: Action): TaskView | undefined {
  const access = state.actor?.access(action, 'task') ?? 'all';
  if (access === 'none') throw new HttpError('actionNotAllowed');
  return access === 'all' ? undefined : access;
}

/** Decodes the part of a path, because the router takes a wrong encoding literally. @throws {HttpError} `error` */
export function decoded([encoded = '']: readonly string[] = [], maxLength: number, error: ErrorName): string {
  let text = '';
  try {
    text = decodeURIComponent(encoded);
  } catch {
    // Refused like an empty text.
  }
  if (text === '' || text.length > maxLength) throw new HttpError(error);
  return text;
}

/** Runs a query on tasks. @throws {HttpError} `database unavailable` or `query failed` */
export async function query<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof HttpError) throw cause;
    throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'queryFailed', { cause });
  }
}

/** Runs an operation of the queue. @throws {HttpError} `queue unavailable` */
export async function ask<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw cause instanceof HttpError ? cause : new HttpError('queueUnavailable', { cause });
  }
}

/** Converts an error from `Queue.publish` or `Queue.redrive` to an HttpError and throws it. */
export function failedToQueue(cause: unknown, { store }: Queue): never {
  if (cause instanceof KeyReused) throw new HttpError('idempotencyKeyReused', { cause });
  const overload = cause instanceof QueueFull;
  // An unavailable server usually returns on its own, a damaged file does not.
  const isTemporary = overload || (store.isShared && cause instanceof DatabaseUnavailable);
  throw new HttpError('failedToQueueTask', { cause, overload, headers: isTemporary ? { 'Retry-After': '1' } : {} });
}
