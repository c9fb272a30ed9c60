import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Middleware } from 'koa';
import { HttpError } from '../http/errors.ts';
import { TokenStoreUnavailable } from './token-store.ts';
import type { Identity, Tokens } from './tokens.ts';

/** WebSocket subprotocol of the price stream. A browser offers it alongside its token, and the server selects it. */
export const SUBPROTOCOL = 'ticker.v1';
const TOKEN_PROTOCOL = 'bearer.';

/** Koa state of a request: the identity of its bearer token, or undefined if the token is missing or invalid. */
export interface SecurityContext {
  identity: Identity | undefined;
}

/** Creates middleware that sets `identity` from a bearer token. Refusing requests without a valid token is left to the endpoints. */
export function tokenAuth(tokens: Pick<Tokens, 'verify'>): Middleware<SecurityContext> {
  return async (ctx, next) => {
    ctx.state.identity = await verifyToken(tokens, bearerToken(ctx.req));
    await next();
  };
}

/** Returns the identity of a token, or undefined if the token is missing or invalid. @throws {HttpError} `token store unavailable` */
export async function verifyToken(tokens: Pick<Tokens, 'verify'>, token?: string): Promise<Identity | undefined> {
  return token === undefined ? undefined : tokens.verify(token).catch(answerUnavailable);
}

/** Rethrows `cause`. @throws {HttpError} `token store unavailable` instead, if `cause` is a {@link TokenStoreUnavailable} */
export function answerUnavailable(cause: unknown): never {
  throw cause instanceof TokenStoreUnavailable ? new HttpError('tokenStoreUnavailable', { cause }) : cause;
}

/**
 * Returns the bearer token of a request from the first of these that is present: the `Authorization: Bearer …` header,
 * the `bearer.…` subprotocol (because browsers cannot set headers), or the `token` query parameter (for tools).
 */
export function bearerToken({ headers, url = '' }: Pick<IncomingMessage, 'headers' | 'url'>): string | undefined {
  if (headers.authorization !== undefined) return authorizationToken(headers);
  const offered = headers['sec-websocket-protocol']?.split(',').map((protocol) => protocol.trim()) ?? [];
  const protocol = offered.find((each) => each.startsWith(TOKEN_PROTOCOL));
  if (protocol !== undefined) return protocol.slice(TOKEN_PROTOCOL.length);
  const query = url.indexOf('?');
  return query < 0 ? undefined : (new URLSearchParams(url.slice(query)).get('token') ?? undefined);
}

/** Returns the token from the `Authorization: Bearer …` header, or undefined if there is none. */
export function authorizationToken({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
}
