import type { Middleware } from 'koa';

/** For every answer that is data: it is not a page, must not be taken for one, and is nobody's to keep. */
export const dataHeaders: Readonly<Record<string, string>> = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
};

/** Gives every answer with a body the {@link dataHeaders}, unless it is a page, which has its own. */
export const securityHeaders: Middleware = async (ctx, next) => {
  await next();
  if (ctx.body != null && !ctx.res.hasHeader('Content-Security-Policy')) ctx.set(dataHeaders);
};
