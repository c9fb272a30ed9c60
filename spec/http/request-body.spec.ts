import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import fc from 'fast-check';
import { BodyBuffer, ByteBudget, readJsonObject } from '../../main/http/request-body.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const boundsOf = (limit: number) => ({ limit, budget: new ByteBudget(2 * limit) });

describe('a budget of bytes', () => {
  it('lets no client hold more than it leaves to the others, so there is room for small bodies however many clients want large ones', () => {
    const budget = new ByteBudget(100);
    expect(budget.take(51)).to.equal(false);
    expect(budget.take(30)).to.equal(true);
    expect(budget.take(21, 30)).to.equal(false);
    expect(budget.take(20, 30)).to.equal(true);
    expect(budget.take(26)).to.equal(false);
    expect(budget.take(25)).to.equal(true);
    expect(budget.used).to.equal(75);
    const large = new ByteBudget(1_000_000);
    const held = Array<number>(200).fill(0);
    for (let round = 0; round < 20; round++)
      for (const [client, bytes] of held.entries()) {
        const more = Math.max(512, bytes);
        if (large.take(more, bytes)) held[client] = bytes + more;
      }
    expect(large.take(1024)).to.equal(true);
  });
});

describe('the buffer of a body', () => {
  it('has the bytes in order, however they are cut, and costs at most twice as many', () => {
    const chunked = fc.array(fc.uint8Array({ maxLength: 600 }), { size: 'large' });
    fc.assert(
      fc.property(chunked, fc.boolean(), (chunks, withLength) => {
        const whole = Buffer.concat(chunks);
        const bounds = boundsOf(2000);
        const body = new BodyBuffer(bounds, withLength ? `${whole.length}` : undefined);
        for (const chunk of chunks) {
          if (body.length + chunk.length > 2000) break;
          body.append(Buffer.from(chunk));
          expect(body.capacity).to.be.at.most(Math.min(2000, Math.max(512, 2 * body.length)));
          expect(bounds.budget.used).to.equal(body.capacity);
        }
        expect(body.bytes.equals(whole.subarray(0, body.length))).to.equal(true);
        body.release();
        expect(bounds.budget.used).to.equal(0);
      }),
    );
  });

  it('takes no memory for a Content-Length before the bytes are there, and no more than it says', () => {
    for (const [contentLength, capacity] of Object.entries({ [MIB]: 512, '11': 11 })) {
      const body = new BodyBuffer(boundsOf(MIB), contentLength);
      expect(body.capacity).to.equal(0);
      body.append(Buffer.alloc(10));
      expect(body.capacity).to.equal(capacity);
    }
  });
});

describe('readJsonObject', () => {
  const turns = { enter: async () => {} };
  const requestOf = (...chunks: (string | Buffer)[]) =>
    Object.assign(Readable.from(chunks.map((chunk) => Buffer.from(chunk))), { headers: {} }) as IncomingMessage;

  it('parses a body when it is admitted, with its size, and holds the budget until then', async () => {
    const bounds = boundsOf(1000);
    const admission = Promise.withResolvers<void>();
    const admitted: number[] = [];
    const enter = (bytes: number) => {
      admitted.push(bytes);
      return admission.promise;
    };
    const value = readJsonObject(requestOf('{"a"', ':1}'), bounds, { enter });
    await until(() => admitted.length > 0);
    expect([admitted, bounds.budget.used]).to.deep.equal([[7], 512]);
    admission.resolve();
    expect([await value, bounds.budget.used]).to.deep.equal([{ a: 1 }, 0]);
  });

  it('answers 503 once other bodies use up the budget, and frees what it held, as after any failure', async () => {
    const bounds = boundsOf(1000);
    for (const chunks of [['{'], ['x'.repeat(600), 'x'.repeat(401)]])
      await readJsonObject(requestOf(...chunks), bounds, turns).catch(() => expect(bounds.budget.used).to.equal(0));
    bounds.budget.take(1000);
    const full = requestOf(Buffer.alloc(600, ' '), Buffer.alloc(100, ' '));
    const error = await readJsonObject(full, bounds, turns).catch((error) => error);
    expect(error).to.deep.include({ status: 503, message: 'server busy', headers: { 'Retry-After': '1' } });
    expect([error.overload, bounds.budget.used]).to.deep.equal([true, 1000]);
  });

  it('discards up to 16 MiB of a refused body whose connection is to close, and holds no memory for them', async () => {
    const bounds = boundsOf(1000);
    const request = Object.assign(new Readable({ read() {} }), { headers: { connection: 'close' } });
    const refused = readJsonObject(request as unknown as IncomingMessage, bounds, turns).catch(({ status }) => status);
    const held: number[] = [];
    request.on('data', () => held.push(bounds.budget.used));
    for (const bytes of [600, ...Array(17).fill(MIB + 1)]) request.push(Buffer.alloc(bytes));
    expect([await refused, ...held]).to.deep.equal([413, 600, ...Array(17).fill(0)]);
  });

  it('refuses a body whose client leaves, before it is read or later, and frees what it held', async () => {
    const bounds = boundsOf(1000);
    for (const isEarly of [true, false]) {
      const request = Object.assign(new Readable({ read() {} }), { headers: {} });
      request.push('{');
      if (isEarly) await once(request.destroy(), 'close');
      const error = readJsonObject(request as unknown as IncomingMessage, bounds, turns).catch((reason) => reason);
      await until(() => isEarly || bounds.budget.used > 0);
      request.destroy();
      expect(await error).to.deep.include({ status: 400, message: 'bad request' });
    }
    expect(bounds.budget.used).to.equal(0);
  });
});
