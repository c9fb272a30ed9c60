import Koa from 'koa';
import { jsonErrors, logLateError } from '../http/json-errors.ts';
import { staticClient } from '../http/static-files.ts';
import type { Log } from '../log.ts';
import { type RequestMetrics, recordRequests } from '../metrics/request-metrics.ts';
import { type AuthRouterOptions, authRouter } from './auth-router.ts';
import { type PricesRouterOptions, pricesRouter } from './prices-router.ts';
import type { Relay } from './ws-relay.ts';
import { type WsRouterOptions, wsRouter } from './ws-router.ts';

export interface TickerAppOptions extends AuthRouterOptions, WsRouterOptions, PricesRouterOptions {
  tokens: AuthRouterOptions['tokens'] & WsRouterOptions['tokens'] & PricesRouterOptions['tokens'];
  relay: Pick<Relay, 'completeHandshake' | 'isHandshake' | 'acquire'>;
  requests: RequestMetrics;
  log: Log;
  trustProxy: number;
}

/** Creates the Koa app of the ticker service. @throws {Error} if a file of the browser client cannot be read */
export async function createTickerApp(options: TickerAppOptions): Promise<Koa> {
  const app = new Koa();
  app.on('error', logLateError(options.log));
  app.proxy = options.trustProxy > 0;
  app.maxIpsCount = options.trustProxy;
  app.use(recordRequests(options.requests));
  app.use(options.relay.completeHandshake);
  app.use(jsonErrors(options.log));
  app.use(wsRouter(options).routes());
  app.use(authRouter(options).routes());
  app.use(pricesRouter(options).routes());
  app.use(await staticClient('ticker'));
  return app;
}
