import type { Middleware } from 'koa';
import type { TaskView } from '../../../db/task-rows.ts';
import { CALLBACK_ACTION, type FoundTask, type TaskSubject } from '../../../db/task-store.ts';

export type Action = 'create' | 'read' | 'update' | 'delete';
export type Resource = 'task' | 'dead_letter' | 'queue' | 'schedule' | 'action';

/** The authenticated user of a request. */
export interface Actor {
  userId: string;
  role: string;
  /** Returns the tasks on which the user's token allows an action. For another resource, `all` or `none`. */
  access(action: Action, resource: Resource): TaskView | 'all' | 'none';
  /** Whether the user's token is still valid. */
  isSignedIn(): boolean;
}

export interface TaskAccess {
  /** Sets the actor, and responds 401 to requests without a valid token. */
  requireToken: Middleware<AccessState>;
  /** Routes under `/auth/token` that exchange an API key for a token and revoke tokens. */
  tokenRoutes: Middleware;
  /**
   * Issues a token that may read the tasks of a view, and cancel them if `mayCancel`.
   *
   * @param actor the creator. Undefined stands for the program of this process
   * @throws {HttpError}
   */
  issue(view: TaskView, mayCancel: boolean, expiresIn: number, address: string, actor?: Actor): Promise<string>;
}

/** Koa state of a request. `actor` is undefined if the service runs without access control. */
export interface AccessState {
  actor?: Actor;
}

/** Whether a task is in a view. Undefined is the view of all tasks. */
export function sees(view: TaskView | undefined, task: Partial<TaskSubject> & { id: string }): boolean {
  const { id, action, limitKey, submitter } = task;
  if (view === undefined) return true;
  // The limit key of a callback is its host.
  if (view.limit_key !== undefined) return view.limit_key === limitKey && action !== CALLBACK_ACTION;
  return view.id === id || (submitter !== undefined && view.submitter === submitter);
}

/** Like {@link sees}, for a task that was read. */
export function seesFound(view: TaskView | undefined, found: FoundTask): boolean {
  if ('message' in found) return sees(view, found.message);
  const { id, limit_key, submitter } = found.row;
  const limitKey = limit_key ? JSON.parse(`"${limit_key}"`) : undefined;
  return sees(view, { id, limitKey, submitter: submitter ?? undefined });
}
