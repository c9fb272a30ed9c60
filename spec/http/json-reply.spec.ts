import { OutgoingMessage } from 'node:http';
import { mock } from 'node:test';
import { expect } from 'chai';
import createError from 'http-errors';
import Koa, { type Middleware, type ParameterizedContext } from 'koa';
import { HttpError, serverBusy } from '../../main/http/errors.ts';
import { jsonErrors, logLateError, replyJson, replyListing, replyWithin } from '../../main/http/json-reply.ts';
import { localFetch } from '../../main/http/local-fetch.ts';
import { ByteBudget } from '../../main/http/request-body.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

async function start(middleware: Middleware) {
  const captured = captureLog();
  const app = new Koa();
  const errors: unknown[] = [];
  app.on('error', (error) => errors.push(error));
  app.use(jsonErrors(captured.log)).use(middleware);
  const handle = app.callback();
  return { ...(await serve(handle)), ...captured, errors, handle };
}

const sized = (bytes: number, ...keys: number[]) => keys.map((key) => ({ key, bytes }));
const budget = new ByteBudget(1_000_000);

const MIB = 1024 * 1024;
/** Larger than the socket buffers of a connection. */
const LARGE = 'ü'.repeat(8 * MIB);

describe('a reply in JSON', () => {
  it('is the only one, even if an error follows', async () => {
    const { url, errors } = await start((ctx) => {
      replyJson(ctx, 200, { first: true });
      throw new Error('too late');
    });
    expect(await request(url)).to.deep.include({ status: 200, body: { first: true } });
    expect(errors).to.deep.equal([]);
  });

  it('that may be large holds the budget until the client has read it or is gone, and is refused without room', async () => {
    const budget = new ByteBudget(40 * MIB);
    const { listener, url } = await start((ctx) => {
      if (!replyWithin(budget, ctx, ctx.path === '/small' ? 'x' : LARGE)) throw serverBusy();
    });
    const gone = { res: { closed: true } } as ParameterizedContext;
    expect([replyWithin(budget, gone, 'x'), budget.used]).to.deep.equal([true, 0]);
    const slow = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    slow.socket.pause();
    await until(() => budget.used > 16 * MIB);
    expect(await request(url)).to.deep.include({ status: 503, body: { error: 'server busy' } });
    expect((await request(`${url}/small`)).status).to.equal(200);
    slow.socket.destroy();
    await until(() => budget.used === 0);
    expect((await request(url)).status).to.equal(200);
    await until(() => budget.used === 0);
  });

  it('with a listing holds one item in memory for each slow client, and no more of them than the budget has room for', async () => {
    const budget = new ByteBudget(33 * MIB);
    const read: number[] = [];
    const { listener, url, handle } = await start((ctx) =>
      replyListing(ctx, 'items', sized(16 * MIB, 1, 2, 3), budget, ({ key }) => {
        read.push(key);
        return { text: LARGE };
      }),
    );
    const slow = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    slow.socket.pause();
    await until(() => read.length === 1);
    expect(budget.used).to.equal(16 * MIB);
    expect(await request(url)).to.deep.include({ status: 503, body: { error: 'server busy' } });
    slow.socket.destroy();
    await until(() => budget.used === 0);
    const own = new AbortController();
    await localFetch(handle)(new URL(url), { method: 'GET', headers: {}, body: null, signal: own.signal });
    expect(budget.used, 'for a client in the process').to.equal(16 * MIB);
    own.abort();
    await until(() => budget.used === 0);
    expect(read, 'nothing for the others, or once it has left').to.deep.equal([1, 1]);
    expect((await request(url)).body.count).to.equal(3);
    expect(budget.used).to.equal(0);
    read.length = 0;
    await request(url, { method: 'HEAD' });
    expect(read).to.deep.equal([]);
  });

  // For a text, Node allocates three times its length until the client has read it.
  it('that may be large is passed to Node as bytes', async () => {
    const item = { text: 'ä'.repeat(100_000) };
    const { url } = await start((ctx) => {
      if (ctx.path === '/listing') return replyListing(ctx, 'items', sized(10, 1, 2), budget, () => item);
      return void replyWithin(budget, ctx, item);
    });
    const sent = [mock.method(OutgoingMessage.prototype, 'write'), mock.method(OutgoingMessage.prototype, 'end')];
    expect((await request(url)).body).to.deep.equal(item);
    expect((await request(`${url}/listing`)).body).to.deep.equal({ items: [item, item], count: 2 });
    const chunks = sent.flatMap((method) => method.mock.calls.map((call) => call.arguments[0] as unknown));
    expect(chunks.filter((chunk) => typeof chunk === 'string' && chunk.length > 1000)).to.deep.equal([]);
    expect(chunks.filter((chunk) => Buffer.isBuffer(chunk) && chunk.length > 200_000)).to.have.length(3);
  });

  it('with a listing ends with the connection if there is no room for a further item, or it cannot be read', async () => {
    for (const failure of [serverBusy(), new Error('no row')]) {
      const { listener, errors } = await start((ctx) =>
        replyListing(ctx, 'items', sized(10, 1, 2), budget, ({ key }) => {
          if (key === 2) throw failure;
          return { key };
        }),
      );
      const connection = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
      expect(await connection.ended).to.match(/"items":\[\{"key":1\}\s*$/);
      expect(errors).to.deep.equal(failure instanceof HttpError ? [] : [failure]);
      expect(budget.used).to.equal(0);
    }
  });
});

const DEBUG = 20;
const ERROR = 50;

describe('an error', () => {
  it("that is thrown below a router is logged with its cause when it is the server's, and told to the client by its text only, an internal error unless it is for clients", async () => {
    const serverError = new HttpError('lookupFailed', { cause: new Error('secret detail') });
    const ofLibrary = [
      createError(500, 'secret'),
      createError(503, 'secret', { expose: true }),
      createError(400, 'secret', { expose: false }),
      Object.assign(new Error('secret'), { status: 200, expose: true }),
    ];
    const others = [new TypeError('secret'), 'secret', null, undefined, 7, { status: 'x' }, {}];
    let thrown: unknown;
    const { url, lines } = await start(() => {
      throw thrown;
    });
    for (const [error, status, ...all] of [
      ['lookup failed', 500, serverError],
      ['internal error', 500, ...ofLibrary, ...others],
      ['forbidden', 403, createError(403, 'Forbidden')],
    ] as const) {
      for (thrown of all) {
        expect(await request(`${url}/path?token=secret`), String(thrown)).to.deep.include({ status, body: { error } });
        const logged = lines.splice(0);
        expect(JSON.stringify(logged)).to.not.include('token=secret');
        const facts = logged.map(({ level, msg, method, path }) => [level, msg, method, path]);
        expect(facts).to.deep.equal(status === 500 ? [[ERROR, error, 'GET', '/path']] : []);
        if (thrown === serverError) expect(JSON.stringify(logged[0]?.err)).to.include('secret detail');
      }
    }
  });

  it('while a response is sent is logged, quietly when the client is gone', () => {
    const { log, lines } = captureLog();
    const late = logLateError(log);
    for (const code of ['EPIPE', 'ECONNRESET', 'ERR_STREAM_UNABLE_TO_PIPE', 'EIO', undefined])
      late(Object.assign(new Error('x'), code && { code }));
    expect(lines.map(({ level }) => level)).to.deep.equal([DEBUG, DEBUG, DEBUG, ERROR, ERROR]);
  });
});
