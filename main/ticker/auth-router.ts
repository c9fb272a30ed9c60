import cors from '@koa/cors';
import type Router from '@koa/router';
import type { ApiKeyOwner } from '../../db/sqlite/api-keys.ts';
import { DatabaseUnavailable } from '../../db/sqlite/database.ts';
import type { Awaitable } from '../awaitable.ts';
import { Admission } from '../http/admission.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { authenticationRequired, HttpError } from '../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../http/exact-router.ts';
import { readJsonObject } from '../http/json-body.ts';
import { replyJson } from '../http/json-reply.ts';
import type { RateLimit } from '../http/rate-limit.ts';
import { rateLimitKey } from '../http/rate-limit-key.ts';
import type { Scope } from './policy.ts';
import { answerUnavailable, type SecurityContext, tokenAuth } from './token-auth.ts';
import { TokenStoreFull, TokenStoreUnavailable } from './token-store.ts';
import type { Tokens, TokenUser } from './tokens.ts';

/** Store of API keys. Its methods throw {@link DatabaseUnavailable} if the database cannot be used. */
export interface ApiKeyStore {
  findOwner(apiKey: string): Awaitable<ApiKeyOwner | undefined>;
  ensureDemoUser(now: number): Awaitable<{ apiKey: string; created: boolean }>;
}

export interface AuthRouterOptions {
  apiKeys: Pick<ApiKeyStore, 'findOwner'>;
  tokens: Pick<Tokens, 'issue' | 'verify' | 'revoke' | 'lifetimeSeconds'>;
  rateLimit: Pick<RateLimit, 'take'>;
  userScope: Scope;
}

const BODY_LIMIT = 4096;
/** Limit on the total size of all request bodies that have not been parsed yet. */
const BODY_BUDGET_BYTES = 8 * 1024 * 1024;

/** Creates the router for `/auth/token`, which exchanges API keys for tokens and revokes tokens. */
export function authRouter(options: AuthRouterOptions): Router<SecurityContext> {
  const { apiKeys, tokens, userScope, rateLimit } = options;
  const router = exactRouter<SecurityContext>({ prefix: '/auth' });
  const bodies = { limit: BODY_LIMIT, budget: new ByteBudget(BODY_BUDGET_BYTES) };
  const admission = new Admission();

  router.all('/token', cors({ origin: '*' }));

  router.post('/token', async (ctx) => {
    limitRate(ctx.ip);
    const { api_key: apiKey } = await readJsonObject(ctx.req, bodies, (bytes) => admission.enter(bytes));
    if (typeof apiKey !== 'string' || apiKey === '') throw new HttpError('apiKeyRequired');
    const owner = await findOwner(apiKey);
    if (owner === undefined) throw new HttpError('invalidApiKey');
    const token = await issue({ ...owner, apiKey }, ctx.ip);
    const { user_id, role } = owner;
    replyJson(ctx, 200, { token, user_id, role, expires_in: tokens.lifetimeSeconds });
  });

  router.delete('/token', tokenAuth(tokens), async (ctx) => {
    const { identity } = ctx.state;
    if (identity === undefined) throw authenticationRequired();
    await tokens.revoke(identity).catch(answerUnavailable);
    ctx.status = 204;
  });

  router.all('/token', answerOtherMethods('POST', 'DELETE'));

  function limitRate(ip: string): void {
    const waitMs = rateLimit.take(rateLimitKey(ip));
    if (waitMs === 0) return;
    throw new HttpError('tooManyRequests', { headers: { 'Retry-After': String(Math.ceil(waitMs / 1000)) } });
  }

  async function findOwner(apiKey: string): Promise<ApiKeyOwner | undefined> {
    try {
      return await apiKeys.findOwner(apiKey);
    } catch (cause) {
      throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'lookupFailed', { cause });
    }
  }

  async function issue(user: TokenUser, remoteAddress: string): Promise<string> {
    try {
      return await tokens.issue(user, userScope, remoteAddress);
    } catch (cause) {
      if (cause instanceof TokenStoreUnavailable) throw new HttpError('tokenStoreUnavailable', { cause });
      throw new HttpError('tokenCreationFailed', { cause, overload: cause instanceof TokenStoreFull });
    }
  }

  return router;
}
