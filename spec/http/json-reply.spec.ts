import { expect } from 'chai';
import createError from 'http-errors';
import Koa, { type Middleware } from 'koa';
import { ByteBudget } from '../../main/http/byte-budget.ts';
import { HttpError, serverBusy } from '../../main/http/errors.ts';
import {
  apiHeaders,
  jsonErrors,
  logLateError,
  notFound,
  replyJson,
  replyListing,
  replyWithin,
} from '../../main/http/json-reply.ts';
import { rawResponse } from '../../main/http/listener.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

async function start(middleware: Middleware) {
  const app = new Koa();
  const errors: unknown[] = [];
  app.on('error', (error) => errors.push(error));
  app.use(jsonErrors(captureLog().log));
  app.use(middleware);
  return { ...(await serve(app.callback())), errors };
}

describe('a reply in JSON', () => {
  it('has its status, length and type, and the headers of all data and its own', async () => {
    const { url, errors } = await start((ctx) => replyJson(ctx, 202, { text: 'é' }, { Location: '/there' }));
    const { status, body, headers } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 202, body: { text: 'é' } });
    expect(headers.get('content-length')).to.equal('14');
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(headers.get('location')).to.equal('/there');
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(errors).to.deep.equal([]);
  });

  it('keeps headers set before, except its own', async () => {
    const { url } = await start((ctx) => {
      ctx.set('Vary', 'Origin');
      ctx.body = 'a text of some length';
      replyJson(ctx, 200, {});
    });
    const { body, headers } = await request(url);
    expect(body).to.deep.equal({});
    expect([headers.get('vary'), headers.get('content-length')]).to.deep.equal(['Origin', '3']);
  });

  it('to HEAD has no body', async () => {
    const { url } = await start((ctx) => replyJson(ctx, 200, { a: 1 }));
    const { body, headers } = await request(url, { method: 'HEAD' });
    expect([body, headers.get('content-length')]).to.deep.equal(['', '8']);
  });

  it('comes too late when another one has begun', async () => {
    const { url, errors } = await start((ctx) => {
      replyJson(ctx, 200, { first: true });
      replyJson(ctx, 500, { second: true });
    });
    expect(await request(url)).to.deep.include({ status: 200, body: { first: true } });
    expect(errors).to.deep.equal([]);
  });
});

const small = { bytes: () => 10 };
const budget = new ByteBudget(1_000_000);

const MIB = 1024 * 1024;
/** Larger than the socket buffers of a connection. */
const LARGE = 'x'.repeat(16 * MIB);

describe('a reply that may be large', () => {
  it('holds the budget until the client has read it or is gone, and is refused without room', async () => {
    const budget = new ByteBudget(40 * MIB);
    const { listener, url } = await start((ctx) => {
      if (!replyWithin(budget, ctx, ctx.path === '/small' ? 'x' : LARGE)) throw serverBusy();
    });
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
});

describe('a reply with a listing', () => {
  it('holds one item in memory for each slow client, and no more of them than the budget has room for', async () => {
    const budget = new ByteBudget(33 * MIB);
    const read: number[] = [];
    const items = {
      ...small,
      bytes: () => 16 * MIB,
      budget,
      read(key: number) {
        read.push(key);
        return { text: LARGE };
      },
    };
    const { listener, url } = await start((ctx) => replyListing(ctx, 'items', [1, 2, 3], items));
    const slow = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    slow.socket.pause();
    await until(() => read.length === 1);
    expect(budget.used).to.equal(16 * MIB);
    expect(await request(url)).to.deep.include({ status: 503, body: { error: 'server busy' } });
    expect(read).to.deep.equal([1]);
    slow.socket.destroy();
    await until(() => budget.used === 0);
    expect((await request(url)).body.count).to.equal(3);
    expect(budget.used).to.equal(0);
  });

  it('ends with the connection if there is no room for a further item, or it cannot be read', async () => {
    for (const failure of [serverBusy(), new Error('no row')]) {
      const { listener, errors } = await start((ctx) =>
        replyListing(ctx, 'items', [1, 2], {
          ...small,
          budget,
          read(key) {
            if (key === 2) throw failure;
            return { key };
          },
        }),
      );
      const connection = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
      expect(await connection.ended).to.match(/"items":\[\{"key":1\}\s*$/);
      expect(errors).to.deep.equal(failure instanceof HttpError ? [] : [failure]);
      expect(budget.used).to.equal(0);
    }
  });

  it('to HEAD reads no item', async () => {
    const read = () => expect.fail('read');
    const { url } = await start((ctx) => replyListing(ctx, 'items', [1], { ...small, budget, read }));
    expect(await request(url, { method: 'HEAD' })).to.deep.include({ status: 200, body: '' });
  });

  it('names its items and counts them, without those that are gone', async () => {
    const { url } = await start((ctx) =>
      replyListing(ctx, 'items', [1, 2, 3], { ...small, budget, read: (key) => (key === 2 ? undefined : { key }) }),
    );
    const { status, body, headers } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 200, body: { items: [{ key: 1 }, { key: 3 }], count: 2 } });
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(headers.get('cache-control')).to.equal('no-store');
  });

  it('may be empty', async () => {
    const { url } = await start((ctx) => replyListing(ctx, 'items', [1], { ...small, budget, read: () => undefined }));
    expect((await request(url)).body).to.deep.equal({ items: [], count: 0 });
  });
});

const DEBUG = 20;
const ERROR = 50;

/** Starts an app that runs `middleware` below the error middleware. */
async function startLogged(...middleware: Middleware[]) {
  const captured = captureLog();
  const app = new Koa();
  app.on('error', logLateError(captured.log));
  app.use(jsonErrors(captured.log));
  for (const each of middleware) app.use(each);
  return { ...(await serve(app.callback())), ...captured };
}

const throwing = (thrown: unknown) =>
  startLogged(() => {
    throw thrown;
  });

describe('an error thrown below a router', () => {
  it('is answered as {error} with its status and headers', async () => {
    const { url, lines } = await throwing(new HttpError('methodNotAllowed', { headers: { Allow: 'POST' } }));
    const { status, headers, body } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
    expect(headers.get('allow')).to.equal('POST');
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(lines).to.deep.equal([]);
  });

  it("is logged with its cause when it is the server's, and the client learns only the text", async () => {
    const cause = new Error('secret detail');
    const { url, lines } = await throwing(new HttpError('lookupFailed', { cause }));
    const { status, body } = await request(`${url}/path?token=secret`);
    expect({ status, body }).to.deep.equal({ status: 500, body: { error: 'lookup failed' } });
    expect(lines).to.have.lengthOf(1);
    expect(lines[0]).to.include({ level: ERROR, msg: 'lookup failed', method: 'GET', path: '/path' });
    expect(JSON.stringify(lines[0]?.err)).to.include('secret detail');
    expect(JSON.stringify(lines)).to.not.include('token=secret');
  });

  it('is kept out of the error log when only load brings it about', async () => {
    const { url, lines } = await throwing(new HttpError('failedToQueueTask', { overload: true }));
    expect((await request(url)).status).to.equal(500);
    expect(lines.map(({ level }) => level)).to.deep.equal([DEBUG]);
  });

  for (const thrown of [
    new Error('secret'),
    new TypeError('secret'),
    'secret',
    null,
    undefined,
    7,
    { status: 'x' },
    {},
  ]) {
    it(`that nobody foresaw is an internal error: ${thrown instanceof Error ? thrown.name : JSON.stringify(thrown)}`, async () => {
      const { url, lines } = await throwing(thrown);
      const { status, body } = await request(url);
      expect({ status, body }).to.deep.equal({ status: 500, body: { error: 'internal error' } });
      expect(lines[0]).to.include({ level: ERROR, msg: 'internal error' });
    });
  }

  it('of a library keeps its status when it is for clients', async () => {
    const { url, lines } = await throwing(createError(403, 'Forbidden'));
    expect(await request(url)).to.deep.include({ status: 403, body: { error: 'forbidden' } });
    expect(lines).to.deep.equal([]);
  });

  for (const error of [
    createError(500, 'secret'),
    createError(503, 'secret', { expose: true }),
    createError(400, 'secret', { expose: false }),
    Object.assign(new Error('secret'), { status: 200, expose: true }),
  ]) {
    it(`of a library is an internal error when it is not: ${error.status}`, async () => {
      const { url } = await throwing(error);
      expect(await request(url)).to.deep.include({ status: 500, body: { error: 'internal error' } });
    });
  }

  it('replaces what was answered before', async () => {
    const { url } = await startLogged((ctx) => {
      ctx.status = 201;
      ctx.type = 'text/plain';
      ctx.body = 'a text of some length';
      throw new HttpError('badRequest');
    });
    const { status, headers, body } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 400, body: { error: 'bad request' } });
    expect(headers.get('content-type')).to.match(/^application\/json/);
  });

  it('is not made of an answer', async () => {
    const { url, lines } = await startLogged((ctx) => {
      ctx.body = 'fine';
    });
    expect(await request(url)).to.deep.include({ status: 200, body: 'fine' });
    expect(lines).to.deep.equal([]);
  });
});

describe('the end of an app', () => {
  it('answers 404 as JSON', async () => {
    const { url } = await startLogged(notFound);
    expect(await request(`${url}/x`)).to.deep.include({ status: 404, body: { error: 'not found' } });
    expect((await request(url, { method: 'HEAD' })).status).to.equal(404);
  });
});

describe('an error while a response is sent', () => {
  it('is logged, quietly when the client is gone', () => {
    const { log, lines } = captureLog();
    const late = logLateError(log);
    for (const code of ['EPIPE', 'ECONNRESET', 'ERR_STREAM_UNABLE_TO_PIPE'])
      late(Object.assign(new Error('x'), { code }));
    late(Object.assign(new Error('x'), { code: 'EIO' }));
    late(new Error('x'));
    expect(lines.map(({ level }) => level)).to.deep.equal([DEBUG, DEBUG, DEBUG, ERROR, ERROR]);
  });
});

describe('a raw response', () => {
  it('is a whole HTTP response that ends the connection', () => {
    const text = rawResponse(400, { error: 'größer' }, { 'X-More': '1' });
    const { status, headers, body } = parseResponse(text);
    expect(status).to.equal(400);
    expect(
      headers.split('\r\n').filter((line) => !Object.keys(apiHeaders).some((name) => line.startsWith(name))),
    ).to.deep.equal([
      'HTTP/1.1 400 Bad Request',
      'Content-Type: application/json; charset=utf-8',
      'Content-Length: 21',
      'Connection: close',
      'X-More: 1',
    ]);
    expect(body).to.equal('{"error":"größer"}\n');
  });
});
