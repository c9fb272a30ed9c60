import type { TaskAccess } from './tasks/http/access.ts';
import { allows } from './ticker/policy.ts';
import type { TickerService } from './ticker/service.ts';
import { authorizationToken, verifyToken } from './ticker/token-auth.ts';

/**
 * Creates service B's access control, which accepts service A's bearer tokens. Reads tokens only from the
 * `Authorization` header, because tokens in query strings end up in logs.
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
