import { expect } from 'chai';
import Koa, { type Middleware } from 'koa';
import { ByteBudget } from '../../main/http/byte-budget.ts';
import { HttpError, serverBusy } from '../../main/http/errors.ts';
import { jsonErrors } from '../../main/http/json-errors.ts';
import { replyJson, replyListing, replyWithin } from '../../main/http/json-reply.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
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

const small = { bytes: () => 10, admit: async () => {} };
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

  it('reads each item when it is admitted, and no earlier', async () => {
    const admission = Promise.withResolvers<void>();
    const read: number[] = [];
    const { url } = await start((ctx) =>
      replyListing(ctx, 'items', [1, 2], {
        budget,
        bytes: (key) => key,
        admit: (bytes) => (bytes === 1 ? Promise.resolve() : admission.promise),
        read(key) {
          read.push(key);
          return { key };
        },
      }),
    );
    const reply = request(url);
    await until(() => read.length > 0);
    expect(read).to.deep.equal([1]);
    admission.resolve();
    expect((await reply).body.count).to.equal(2);
  });
});
