import { DatabaseUnavailable } from '../../../db/database-unavailable.ts';
import { type ActionLimits, type Awaitable, KeyReused, QueueFull, UnknownDeadLetter } from '../../../db/task-store.ts';
import type { Clock } from '../../../workers/shared/clock.ts';
import type { MainThreadCheck } from '../../../workers/submissions/parse-submission.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import type { ByteBudget } from '../../http/byte-budget.ts';
import { HttpError } from '../../http/errors.ts';
import type { Handler, Resources } from '../../http/exact-router.ts';
import type { BodyBounds } from '../../http/request-body.ts';
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
  monitor: Pick<QueueMonitor, 'status' | 'history'>;
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

/** Returns a handler that answers 403 if the actor's token does not allow the action. An undefined actor may do all. */
export function authorized(action: Action, resource: Resource, handle: Handler<AccessState>): Handler<AccessState> {
  return (ctx, next) => {
    if (ctx.state.actor?.allows(action, resource) === false) throw new HttpError('actionNotAllowed');
    return handle(ctx, next);
  };
}

/** Runs a query on tasks. @throws {HttpError} `database unavailable` or `query failed` */
export async function query<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'queryFailed', { cause });
  }
}

/** Runs an operation of the queue. @throws {HttpError} `before is unknown` or `queue unavailable` */
export async function ask<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw new HttpError(cause instanceof UnknownDeadLetter ? 'beforeUnknown' : 'queueUnavailable', { cause });
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
