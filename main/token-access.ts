import type { TaskAccess } from './tasks/http/access.ts';
import { allows } from './ticker/policy.ts';
import type { TickerService } from './ticker/service.ts';
import { authorizationToken, verifyToken } from './ticker/token-auth.ts';

/** Accepts the ticker service's bearer tokens, but only in the `Authorization` header, because URLs end up in logs. */
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
