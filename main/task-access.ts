import type { Actor, TaskAccess } from './tasks/http/access.ts';
import { allows } from './ticker/policy.ts';
import type { TickerService } from './ticker/service.ts';
import { authorizationToken, verifyToken } from './ticker/token-auth.ts';
import type { Identity, Tokens } from './ticker/tokens.ts';

/**
 * Access control of service B by the tokens of service A. Only the `Authorization` header is accepted: a query string ends up in
 * logs, and subprotocols exist only for WebSockets.
 */
export function tokenAccess({ tokens, tokenRoutes }: Pick<TickerService, 'tokens' | 'tokenRoutes'>): TaskAccess {
  return {
    tokenRoutes,
    async authenticate({ headers }) {
      const token = authorizationToken(headers);
      const identity = token === undefined ? undefined : await verifyToken(tokens, token);
      return identity && actorOf(identity, tokens);
    },
  };
}

function actorOf(identity: Identity, tokens: Pick<Tokens, 'isLive'>): Actor {
  return {
    userId: identity.actor.metadata.user_id,
    allows: (action, resource) => allows(identity.scope, action, resource),
    isSignedIn: () => tokens.isLive(identity),
  };
}
