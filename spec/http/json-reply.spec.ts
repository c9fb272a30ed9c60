import { expect } from 'chai';
import Koa, { type Middleware } from 'koa';
import { replyJson, replyListing } from '../../main/http/json-reply.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

async function start(middleware: Middleware) {
  const app = new Koa();
  const errors: unknown[] = [];
  app.on('error', (error) => errors.push(error));
  app.use(middleware);
  return { ...(await serve(app.callback())), errors };
}

describe('a reply in JSON', () => {
  it('has its status, length and type, and the headers of all data and its own', async () => {
    const { url, errors } = await start((ctx) => replyJson(ctx, 202, { text: 'é' }, { Location: '/there' }));
    const { status, body, headers } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 202, body: { text: 'é' } });
    expect(headers.get('content-length')).to.equal('13');
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(headers.get('location')).to.equal('/there');
    expect(headers.get('cache-control')).to.equal('no-store');
    expect(errors).to.deep.equal([]);
  });

  it('keeps what was set before, but for what it says itself', async () => {
    const { url } = await start((ctx) => {
      ctx.set('Vary', 'Origin');
      ctx.body = 'a text of some length';
      replyJson(ctx, 200, {});
    });
    const { body, headers } = await request(url);
    expect(body).to.deep.equal({});
    expect([headers.get('vary'), headers.get('content-length')]).to.deep.equal(['Origin', '2']);
  });

  it('to HEAD has no body', async () => {
    const { url } = await start((ctx) => replyJson(ctx, 200, { a: 1 }));
    const { body, headers } = await request(url, { method: 'HEAD' });
    expect([body, headers.get('content-length')]).to.deep.equal(['', '7']);
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

const admit = async () => {};

describe('a reply with a listing', () => {
  it('names its items and counts them, without those that are gone', async () => {
    const { url } = await start((ctx) =>
      replyListing(ctx, 'items', [1, 2, 3], { admit, read: (key) => (key === 2 ? undefined : { key }) }),
    );
    const { status, body, headers } = await request(url);
    expect({ status, body }).to.deep.equal({ status: 200, body: { items: [{ key: 1 }, { key: 3 }], count: 2 } });
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(headers.get('cache-control')).to.equal('no-store');
  });

  it('may be empty', async () => {
    const { url } = await start((ctx) => replyListing(ctx, 'items', [1], { admit, read: () => undefined }));
    expect((await request(url)).body).to.deep.equal({ items: [], count: 0 });
  });

  it('reads each item when it is admitted, and no earlier', async () => {
    const admission = Promise.withResolvers<void>();
    const read: number[] = [];
    const { url } = await start((ctx) =>
      replyListing(ctx, 'items', [1, 2], {
        admit: (key) => (key === 1 ? Promise.resolve() : admission.promise),
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
