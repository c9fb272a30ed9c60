import type { Middleware } from 'koa';

export type Action = 'create' | 'read' | 'update' | 'delete';
export type Resource = 'task' | 'dead_letter' | 'queue' | 'schedule' | 'action';

/** The authenticated user of a request. */
export interface Actor {
  userId: string;
  allows(action: Action, resource: Resource): boolean;
  /** Whether the user's token is still valid. */
  isSignedIn(): boolean;
}

export interface TaskAccess {
  /** Sets the actor, and responds 401 to requests without a valid token. */
  requireToken: Middleware<AccessState>;
  /** Routes under `/auth/token` that exchange an API key for a token and revoke tokens. */
  tokenRoutes: Middleware;
}

/** Koa state of a request. `actor` is undefined if the service runs without access control. */
export interface AccessState {
  actor?: Actor;
}
