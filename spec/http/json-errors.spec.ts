import { expect } from 'chai';
import createError from 'http-errors';
import Koa, { type Middleware } from 'koa';
import { HttpError } from '../../main/http/errors.ts';
import { jsonErrors, logLateError, notFound } from '../../main/http/json-errors.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';

const DEBUG = 20;
const ERROR = 50;

/** Starts an app that runs `middleware` below the error middleware. */
async function start(...middleware: Middleware[]) {
  const captured = captureLog();
  const app = new Koa();
  app.on('error', logLateError(captured.log));
  app.use(jsonErrors(captured.log));
  for (const each of middleware) app.use(each);
  return { ...(await serve(app.callback())), ...captured };
}

const throwing = (thrown: unknown) =>
  start(() => {
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
    const { url } = await start((ctx) => {
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
    const { url, lines } = await start((ctx) => {
      ctx.body = 'fine';
    });
    expect(await request(url)).to.deep.include({ status: 200, body: 'fine' });
    expect(lines).to.deep.equal([]);
  });
});

describe('the end of an app', () => {
  it('answers 404 as JSON', async () => {
    const { url } = await start(notFound);
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
