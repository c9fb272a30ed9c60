import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { HttpError } from '../http/errors.ts';
import { TokenStoreUnavailable } from './token-store.ts';
import type { Identity, Tokens } from './tokens.ts';

/** WebSocket subprotocol that the server selects. A browser also offers `bearer.<token>`, which contains its token. */
export const SUBPROTOCOL = 'ticker.v1';
const TOKEN_PROTOCOL = 'bearer.';

export interface SecurityContext {
  identity: Identity | undefined;
}

/** Creates middleware that sets `ctx.state.identity`. Endpoints must refuse requests whose identity is undefined. */
export function tokenAuth(tokens: Pick<Tokens, 'verify'>): Middleware<SecurityContext> {
  return async (ctx, next) => {
    ctx.state.identity = await verifyToken(tokens, bearerToken(ctx.req));
    await next();
  };
}

/** Returns undefined if the token is missing or invalid. @throws {HttpError} `token store unavailable` */
export async function verifyToken(tokens: Pick<Tokens, 'verify'>, token?: string): Promise<Identity | undefined> {
  return token === undefined ? undefined : tokens.verify(token).catch(answerUnavailable);
}

/** Rethrows an error, with {@link TokenStoreUnavailable} converted to the HTTP error `token store unavailable`. */
export function answerUnavailable(cause: unknown): never {
  throw cause instanceof TokenStoreUnavailable ? new HttpError('tokenStoreUnavailable', { cause }) : cause;
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
