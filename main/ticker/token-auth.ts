import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { HttpError } from '../http/errors.ts';
import { TokenStoreUnavailable } from './token-store.ts';
import type { Identity, Tokens } from './tokens.ts';

/** Subprotocol of the price stream. A browser offers it beside its token, and the server selects it. */
export const SUBPROTOCOL = 'ticker.v1';
const TOKEN_PROTOCOL = 'bearer.';

/** State restored from the token of a request. */
export interface SecurityContext {
  identity: Identity | undefined;
}

/** Restores actor and policies from a request's bearer token. Endpoints refuse requests without a valid token. */
export function tokenAuth(tokens: Pick<Tokens, 'verify'>): Middleware<SecurityContext> {
  return async (ctx, next) => {
    ctx.state.identity = await verifyToken(tokens, bearerToken(ctx.req));
    await next();
  };
}

/** The identity of a valid token. @throws {HttpError} `token store unavailable` */
export async function verifyToken(tokens: Pick<Tokens, 'verify'>, token?: string): Promise<Identity | undefined> {
  return token === undefined ? undefined : tokens.verify(token).catch(answerUnavailable);
}

/** Replaces the error of a token store that is unavailable. @throws {HttpError} `token store unavailable`, or `cause` */
export function answerUnavailable(cause: unknown): never {
  throw cause instanceof TokenStoreUnavailable ? new HttpError('tokenStoreUnavailable', { cause }) : cause;
}

/**
 * Returns the bearer token of a request, from the first of these that is present: the header `Authorization: Bearer …`,
 * the subprotocol `bearer.…` (browsers cannot set headers), the query parameter `token` (for tools).
 */
export function bearerToken({ headers, url = '' }: Pick<IncomingMessage, 'headers' | 'url'>): string | undefined {
  if (headers.authorization !== undefined) return authorizationToken(headers);
  const offered = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  const protocol = offered.find((each) => each.startsWith(TOKEN_PROTOCOL));
  if (protocol !== undefined) return protocol.slice(TOKEN_PROTOCOL.length);
  const query = url.indexOf('?');
  return query < 0 ? undefined : (new URLSearchParams(url.slice(query)).get('token') ?? undefined);
}

/** The token of the header `Authorization: Bearer …`. */
export function authorizationToken({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
}
