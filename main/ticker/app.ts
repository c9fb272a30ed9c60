import Koa from 'koa';
import type { Pid } from '../../workers/messages.ts';
import { jsonErrors, logLateError } from '../http/json-errors.ts';
import { staticClient } from '../http/static-client.ts';
import { type AuthRouterOptions, authRouter } from './auth-router.ts';
import type { Relay } from './relay.ts';
import type { Tokens } from './tokens.ts';
import { wsRouter } from './ws-router.ts';

export interface TickerAppOptions extends AuthRouterOptions {
  tokens: Pick<Tokens, 'issue' | 'verify' | 'lifetimeSeconds'>;
  relay: Pick<Relay, 'completeHandshake' | 'isHandshake' | 'takePlace'>;
  createHandler: (actorId: string) => Pid;
}

/** Service A's HTTP side. Does not listen. */
export function createTickerApp(options: TickerAppOptions): Koa {
  const app = new Koa();
  app.on('error', logLateError(options.log));
  app.use(options.relay.completeHandshake);
  app.use(jsonErrors(options.log));
  app.use(authRouter(options).routes());
  app.use(wsRouter(options).routes());
  for (const middleware of staticClient('ticker')) app.use(middleware);
  return app;
}
