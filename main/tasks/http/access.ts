import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { authenticationRequired, HttpError } from '../../http/errors.ts';

export type Action = 'create' | 'read' | 'update' | 'delete';
export type Resource = 'task' | 'dead_letter' | 'queue';

/** The authenticated user of a request. */
export interface Actor {
  userId: string;
  /** Whether the token's policies allow an action on a resource. */
  allows(action: Action, resource: Resource): boolean;
  /** Whether the token is still valid. */
  isSignedIn(): boolean;
}

/** Access control for service B. Routes get an {@link Actor} for each request, but never the token. */
export interface TaskAccess {
  /** Returns the actor of a request, or undefined if its token is missing or invalid. @throws {HttpError} if the token cannot be checked */
  authenticate(request: IncomingMessage): Promise<Actor | undefined>;
  /** Routes for `/auth/token`. The task board uses them to exchange its API key for a token and to revoke the token. */
  tokenRoutes: Middleware;
}

/** Koa state of a request. `actor` is undefined if the service runs without access control. */
export interface AccessState {
  actor?: Actor;
}

/** Returns middleware that requires a valid token for every route registered after it. */
export function requireToken({ authenticate }: TaskAccess): Middleware<AccessState> {
  return async (ctx, next) => {
    const actor = await authenticate(ctx.req);
    if (actor === undefined) throw authenticationRequired();
    ctx.state.actor = actor;
    await next();
  };
}

/** Throws the HttpError `action not allowed` unless the actor may perform the action or access control is off. */
export function authorize({ actor }: AccessState, action: Action, resource: Resource): void {
  if (actor?.allows(action, resource) === false) throw new HttpError('actionNotAllowed');
}
