import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import cors from '@koa/cors';
import type { Middleware } from 'koa';
import type { ApiKeyOwner } from '../../db/api-keys.ts';
import type { Awaitable } from '../../db/task-rows.ts';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { authenticationRequired, HttpError } from '../http/errors.ts';
import { type Handler, router } from '../http/exact-router.ts';
import { replyJson } from '../http/json-reply.ts';
import { type RateLimit, rateLimitKey } from '../http/rate-limit.ts';
import { ByteBudget, readJsonObject } from '../http/request-body.ts';
import { TurnLimit } from '../http/turn-limit.ts';
import type { ScopeOf } from './policy.ts';
import { TokenStoreFull, TokenStoreUnavailable } from './token-store.ts';
import type { Identity, Tokens } from './tokens.ts';

/** Store of API keys. Its methods throw {@link DatabaseUnavailable} if the database cannot be used. */
export interface ApiKeyStore {
  findOwner(apiKey: string): Awaitable<ApiKeyOwner | undefined>;
  ensureDemoUser(now: number): Awaitable<{ apiKey: string; created: boolean }>;
}

const BODY_LIMIT = 4096;
/** Limit on the total size of all request bodies that have not been parsed yet. */
const BODY_BUDGET_BYTES = 8 * 1024 * 1024;

export interface AuthOptions {
  apiKeys: Pick<ApiKeyStore, 'findOwner'>;
  tokens: Pick<Tokens, 'issue' | 'verify' | 'revoke' | 'lifetimeSeconds'>;
  scopeOf: ScopeOf;
  rateLimit: Pick<RateLimit, 'take'>;
}

/** Returns the routes of `/auth/token`, which exchange API keys for tokens and revoke tokens. */
export function authRoutes(options: AuthOptions): Middleware {
  const { apiKeys, tokens, scopeOf, rateLimit } = options;
  const bodies = { limit: BODY_LIMIT, budget: new ByteBudget(BODY_BUDGET_BYTES) };
  const turns = new TurnLimit();
  const exchange: Handler = async (ctx) => {
    const waitMs = rateLimit.take(rateLimitKey(ctx.ip));
    const headers = { 'Retry-After': String(Math.ceil(waitMs / 1000)) };
    if (waitMs > 0) throw new HttpError('tooManyRequests', { headers });
    const { api_key: apiKey } = await readJsonObject(ctx.req, bodies, turns);
    if (typeof apiKey !== 'string' || apiKey === '') throw new HttpError('apiKeyRequired');
    const owner = await findOwner(apiKey);
    if (owner === undefined) throw new HttpError('invalidApiKey');
    const token = await issueToken(tokens, { ...owner, apiKey }, scopeOf(owner.role), ctx.ip);
    const { user_id, role } = owner;
    replyJson(ctx, 200, { token, user_id, role, expires_in: tokens.lifetimeSeconds });
  };
  const revoke = authenticated(tokens, async (ctx) => {
    await tokens.revoke(ctx.state.identity);
    ctx.status = 204;
  });

  async function findOwner(apiKey: string): Promise<ApiKeyOwner | undefined> {
    try {
      return await apiKeys.findOwner(apiKey);
    } catch (cause) {
      throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'lookupFailed', { cause });
    }
  }

  return router(
    { '/auth/token': { POST: exchange, DELETE: revoke } },
    cors({ origin: '*', exposeHeaders: 'Retry-After' }),
  );
}

/** Issues a token. @throws {HttpError} */
export async function issueToken(tokens: Pick<Tokens, 'issue'>, ...args: Parameters<Tokens['issue']>): Promise<string> {
  try {
    return await tokens.issue(...args);
  } catch (cause) {
    if (cause instanceof TokenStoreUnavailable) throw new HttpError('tokenStoreUnavailable', { cause });
    throw new HttpError('tokenCreationFailed', { cause, overload: cause instanceof TokenStoreFull });
  }
}

export const NUMBERED_PROTOCOL = 'ticker.v2';
/** WebSocket subprotocols, preferred first. A browser also offers `bearer.<token>`, which contains its token. */
export const SUBPROTOCOLS: readonly string[] = [NUMBERED_PROTOCOL, 'ticker.v1'];
const TOKEN_PROTOCOL = 'bearer.';

export interface SecurityContext {
  identity: Identity;
}

/** Returns a handler that sets `ctx.state.identity`, and answers 401 to requests without a valid token. */
export function authenticated(
  tokens: Pick<Tokens, 'verify'>,
  handle: Handler<SecurityContext>,
): Handler<SecurityContext> {
  return async (ctx, next) => {
    const identity = await tokens.verify(bearerToken(ctx.req));
    if (identity === undefined) throw authenticationRequired();
    ctx.state.identity = identity;
    await handle(ctx, next);
  };
}

/**
 * Returns a request's bearer token from the `Authorization` header, the WebSocket subprotocol or the query, in this
 * order. Browsers use the subprotocol, because they cannot set headers of a WebSocket handshake.
 */
export function bearerToken({ headers, url = '' }: Pick<IncomingMessage, 'headers' | 'url'>): string | undefined {
  if (headers.authorization !== undefined) return authorizationToken(headers);
  const offered = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  const protocol = offered.find((each) => each.startsWith(TOKEN_PROTOCOL));
  if (protocol !== undefined) return protocol.slice(TOKEN_PROTOCOL.length);
  const query = url.indexOf('?');
  return query < 0 ? undefined : (new URLSearchParams(url.slice(query)).get('token') ?? undefined);
}

/** Returns the token of an `Authorization: Bearer` header, or undefined if the header is missing or invalid. */
export function authorizationToken({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
}
