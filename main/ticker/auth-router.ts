import cors from '@koa/cors';
import Router from '@koa/router';
import type { ApiKeyOwner, ApiKeys } from '../../db/api-keys.ts';
import { DatabaseUnavailable } from '../../db/database.ts';
import { HttpError } from '../http/errors.ts';
import { readJsonObject } from '../http/json-body.ts';
import { refuseOtherMethods } from '../http/other-methods.ts';
import type { Log } from '../log.ts';
import { loadPolicy, type Scope } from './policy.ts';
import { TokenStoreFull, TokenStoreUnavailable } from './token-store.ts';
import type { Tokens } from './tokens.ts';

export interface AuthRouterOptions {
  apiKeys: Pick<ApiKeys, 'findOwner'>;
  tokens: Pick<Tokens, 'issue' | 'lifetimeSeconds'>;
  /** File of the policy that every token's scope holds. */
  userPolicy: URL;
  bodyLimit: number;
  log: Log;
}

/** The public router: `POST /auth/token` exchanges an API key for a bearer token. */
export function authRouter({ apiKeys, tokens, userPolicy, bodyLimit, log }: AuthRouterOptions): Router {
  const router = new Router({ prefix: '/auth' });

  router.all('/token', cors({ origin: '*' }));

  router.post('/token', async (ctx) => {
    const apiKey = parseApiKey(await readJsonObject(ctx.req, bodyLimit));
    const owner = findOwner(apiKey);
    const token = await issue(owner, await loadScope(), ctx.req.socket.remoteAddress ?? '');
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { token, user_id: owner.user_id, role: owner.role, expires_in: tokens.lifetimeSeconds };
  });

  router.all('/token', refuseOtherMethods('POST'));

  function findOwner(apiKey: string): ApiKeyOwner {
    let owner: ApiKeyOwner | undefined;
    try {
      owner = apiKeys.findOwner(apiKey);
    } catch (cause) {
      throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'lookupFailed', { cause });
    }
    if (owner === undefined) throw new HttpError('invalidApiKey');
    return owner;
  }

  async function loadScope(): Promise<Scope> {
    try {
      return [await loadPolicy(userPolicy)];
    } catch (error) {
      log.error({ err: error }, 'the user policy cannot be loaded: the token is issued with an empty scope');
      return [];
    }
  }

  async function issue(owner: ApiKeyOwner, scope: Scope, remoteAddress: string): Promise<string> {
    try {
      return await tokens.issue(owner, scope, remoteAddress);
    } catch (cause) {
      const overload = cause instanceof TokenStoreFull;
      throw new HttpError(cause instanceof TokenStoreUnavailable ? 'tokenStoreUnavailable' : 'tokenCreationFailed', {
        cause,
        overload,
      });
    }
  }

  return router;
}

function parseApiKey({ api_key: apiKey }: Record<string, unknown>): string {
  if (typeof apiKey !== 'string' || apiKey === '') throw new HttpError('apiKeyRequired');
  return apiKey;
}
