import type { TaskAccess } from './tasks/http/access.ts';
import { allows } from './ticker/policy.ts';
import type { TickerService } from './ticker/service.ts';
import { authorizationToken, verifyToken } from './ticker/token-auth.ts';

/**
 * Creates the access control of service B, which accepts the bearer tokens that service A issues. A token is read only from the
 * `Authorization` header, because query strings end up in logs, and subprotocols exist only for WebSockets.
 */
export function tokenAccess({ tokens, tokenRoutes }: Pick<TickerService, 'tokens' | 'tokenRoutes'>): TaskAccess {
  return {
    tokenRoutes,
    async authenticate({ headers }) {
      const identity = await verifyToken(tokens, authorizationToken(headers));
      return (
        identity && {
          userId: identity.actor.metadata.user_id,
          allows: (action, resource) => allows(identity.scope, action, resource),
          isSignedIn: () => tokens.isLive(identity),
        }
      );
    },
  };
}
