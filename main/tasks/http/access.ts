import type { IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { authenticationRequired } from '../../http/errors.ts';

export type Action = 'create' | 'read' | 'update' | 'delete';
export type Resource = 'task' | 'dead_letter' | 'queue' | 'schedule';

/** The authenticated user of a request. */
export interface Actor {
  userId: string;
  allows(action: Action, resource: Resource): boolean;
  /** Whether the user's token is still valid. */
  isSignedIn(): boolean;
}

export interface TaskAccess {
  /** Returns undefined if the request's token is missing or invalid. @throws {HttpError} if it cannot be checked */
  authenticate(request: IncomingMessage): Promise<Actor | undefined>;
  /** Routes under `/auth/token` that exchange an API key for a token and revoke tokens. */
  tokenRoutes: Middleware;
}

/** Koa state of a request. `actor` is undefined if the service runs without access control. */
export interface AccessState {
  actor?: Actor;
}

/** Returns middleware that responds 401 to requests without a valid token. */
export function requireToken({ authenticate }: TaskAccess): Middleware<AccessState> {
  return async (ctx, next) => {
    const actor = await authenticate(ctx.req);
    if (actor === undefined) throw authenticationRequired();
    ctx.state.actor = actor;
    await next();
  };
}
