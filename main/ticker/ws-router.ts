import cors from '@koa/cors';
import type { Middleware } from 'koa';
import type { Clock } from '../../workers/shared/clock.ts';
import { authenticationRequired, HttpError } from '../http/errors.ts';
import { exactRouter } from '../http/exact-router.ts';
import { rateLimitKey } from '../http/rate-limit.ts';
import { authenticated, type SecurityContext } from './auth.ts';
import type { HandlersByToken } from './connection-handler.ts';
import type { Pid } from './pid-registry.ts';
import { allows } from './policy.ts';
import type { Identity, Tokens } from './tokens.ts';
import { RELAY_HEADER, type Relay, type RelayTarget } from './ws-relay.ts';

export interface WsOptions {
  tokens: Pick<Tokens, 'verify' | 'isLive'>;
  relay: Pick<Relay, 'acquire'>;
  createHandler: (actorId: string) => Pid;
  handlersByToken: Pick<HandlersByToken, 'add'>;
  clock: Pick<Clock, 'now'>;
}

export function wsRoutes(options: WsOptions): Middleware {
  const { tokens, relay, createHandler, handlersByToken, clock } = options;
  const join = authenticated(tokens, (ctx) => {
    const { identity } = ctx.state;
    // A token may be revoked during an `await`, so no `await` is allowed between the check and the handler's start.
    if (!tokens.isLive(identity)) throw authenticationRequired();
    if (!relay.acquire(ctx.req, rateLimitKey(ctx.ip))) {
      // A WebSocket does not tell why it was refused, so clients send the request again without an upgrade.
      if (!allows(identity.scope, 'create', 'handler')) throw new HttpError('actionNotAllowed');
      // Node closes the connection at a request's own `Connection: close` only if this header says so, too.
      const connection = ctx.res.shouldKeepAlive ? 'Upgrade' : 'Upgrade, close';
      throw new HttpError('upgradeRequired', { headers: { Upgrade: 'websocket', Connection: connection } });
    }
    const target: RelayTarget = {
      target_pid: startHandler(identity),
      metadata: { user_id: identity.actor.metadata.user_id, auth_time: Math.floor(clock.now() / 1000) },
    };
    ctx.set(RELAY_HEADER, asciiJson(target));
  });

  function startHandler({ actor, scope, tokenId }: Identity): Pid {
    try {
      if (!allows(scope, 'create', 'handler')) throw new Error(`${actor.id} is not allowed to create a handler`);
      const handler = createHandler(actor.id);
      handlersByToken.add(tokenId, handler);
      return handler;
    } catch (cause) {
      throw new HttpError('failedToCreateHandler', { cause });
    }
  }

  return exactRouter<SecurityContext>()
    .all('/ws/ticker', cors({ origin: '*' }), (ctx, next) => {
      if (ctx.method !== 'GET') throw new HttpError('methodNotAllowed', { headers: { Allow: 'GET' } });
      return join(ctx, next);
    })
    .routes() as Middleware;
}

/** Serializes a header value as ASCII JSON, because a user id may contain characters that headers must not contain. */
function asciiJson(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
