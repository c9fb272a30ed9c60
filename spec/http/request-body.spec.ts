import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import fc from 'fast-check';
import { ByteBudget } from '../../main/http/byte-budget.ts';
import { HttpError } from '../../main/http/errors.ts';
import { BodyBuffer, readJsonObject } from '../../main/http/request-body.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const turns = { enter: async () => {} };

function start({ limit = MIB, budgetBytes = 2 * MIB, contentLength }: Partial<Record<string, number>> = {}) {
  const budget = new ByteBudget(budgetBytes);
  return { budget, body: new BodyBuffer({ limit, budget }, contentLength?.toString()) };
}

describe('a body whose client has left', () => {
  it('is refused, whether its client leaves before it is read or later', async () => {
    const { budget } = start();
    for (const isEarly of [true, false]) {
      const request = Object.assign(new Readable({ read() {} }), { headers: {} });
      if (isEarly) request.destroy();
      const error = readJsonObject(request as unknown as IncomingMessage, { limit: MIB, budget }, turns);
      request.destroy();
      expect(await error.catch((reason) => reason)).to.deep.include({ status: 400, message: 'bad request' });
    }
    expect(budget.used).to.equal(0);
  });
});

describe('the buffer of a body', () => {
  it('has the bytes in order, however they are cut', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 600 })), fc.boolean(), (chunks, withLength) => {
        const whole = Buffer.concat(chunks);
        const { body, budget } = start(withLength ? { contentLength: whole.length } : {});
        for (const chunk of chunks) body.append(Buffer.from(chunk));
        expect(body.bytes.equals(whole)).to.equal(true);
        expect(budget.used).to.equal(body.capacity);
        body.release();
        expect(budget.used).to.equal(0);
      }),
    );
  });

  it('costs at most twice its bytes in chunks of one byte, and never more than the limit', () => {
    const { body, budget } = start();
    const byte = Buffer.from(' ');
    for (let length = 1; length <= MIB; length++) {
      body.append(byte);
      if (body.capacity > Math.max(512, 2 * length)) expect.fail(`${body.capacity} bytes for ${length}`);
    }
    expect([body.length, body.capacity, budget.used]).to.deep.equal([MIB, MIB, MIB]);
  });

  it('takes no memory for a Content-Length before the bytes are there', () => {
    const { body } = start({ contentLength: MIB });
    expect(body.capacity).to.equal(0);
    body.append(Buffer.alloc(10));
    expect(body.capacity).to.equal(512);
  });

  it('takes no more than a Content-Length says', () => {
    const { body } = start({ contentLength: 11 });
    body.append(Buffer.alloc(10));
    expect(body.capacity).to.equal(11);
  });

  it('refuses a byte over the limit', () => {
    const { body } = start({ limit: 10 });
    body.append(Buffer.alloc(10));
    expect(() => body.append(Buffer.alloc(1))).to.throw('request body too large');
  });

  it('refuses bytes that the budget has no room for, and releases what it took', () => {
    const { body, budget } = start({ limit: 10_000, budgetBytes: 3000 });
    body.append(Buffer.alloc(1000));
    expect(() => body.append(Buffer.alloc(1000))).to.throw('server busy');
    expect(budget.used).to.equal(1000);
    body.release();
    body.release();
    expect(budget.used).to.equal(0);
  });
});

const boundsOf = (limit: number) => ({ limit, budget: new ByteBudget(2 * limit) });

/** Reads a body that arrives in these chunks. */
function read(chunks: (string | Uint8Array)[], limit = 1000): Promise<Record<string, unknown>> {
  const buffers = chunks.map((chunk) => Buffer.from(chunk as string));
  return readJsonObject(
    Object.assign(Readable.from(buffers), { headers: {} }) as IncomingMessage,
    boundsOf(limit),
    turns,
  );
}

async function refusal(body: string | Uint8Array, limit?: number): Promise<[status: number, text: string]> {
  const error = await read([body], limit).catch((error) => error);
  expect(error).to.be.instanceOf(HttpError);
  return [error.status, error.message];
}

/** Splits bytes at the given fractions of their length. */
function cut(bytes: Buffer, shares: number[]): Buffer[] {
  const places = shares.map((share) => Math.floor(share * bytes.length)).sort((a, b) => a - b);
  return [0, ...places].map((place, index) => bytes.subarray(place, places[index] ?? bytes.length));
}

describe('readJsonObject', () => {
  it('reads any object, however its bytes are cut', async () => {
    const objects = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue());
    const shares = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(objects, shares, async (object, shares) => {
        const text = JSON.stringify(object);
        const value = await read(cut(Buffer.from(text), shares), 1_000_000);
        expect(JSON.stringify(value)).to.equal(JSON.stringify(JSON.parse(text)));
      }),
    );
  });

  it('takes JSON that is no object for one without fields', async () => {
    for (const text of ['null', '[]', '[1]', '"x"', '1', 'true', ' null\n']) {
      expect(await read([text]), text).to.deep.equal({});
    }
  });

  it('allows white space around the object', async () => {
    expect(await read([' \t\r\n{"a":1}\n'])).to.deep.equal({ a: 1 });
  });

  it('keeps a key __proto__ as a key of its own', async () => {
    const value = await read(['{"__proto__":{"a":1}}']);
    expect(Object.getPrototypeOf(value)).to.equal(Object.prototype);
    expect(Object.keys(value)).to.deep.equal(['__proto__']);
    expect(value.a).to.equal(undefined);
  });

  it('refuses what is no JSON, an empty body and one with a byte order mark included', async () => {
    for (const text of ['', ' ', '{', '{"a":1', '{"a":1}x', "{'a':1}", '\ufeff{}', '\0', 'NaN', '{"a":"\t"}']) {
      expect(await refusal(text), JSON.stringify(text)).to.deep.equal([400, 'invalid JSON']);
    }
  });

  it('refuses bytes that are no UTF-8 instead of replacing them', async () => {
    for (const bytes of ['\xff', '\xc3', '\xc0\xaf', '\xed\xa0\x80', '\xf5\x80\x80\x80']) {
      const body = Buffer.from(`{"a":"${bytes}"}`, 'latin1');
      expect(await refusal(body), JSON.stringify(bytes)).to.deep.equal([400, 'invalid JSON']);
    }
  });

  it('parses a body when it is admitted, with its size, and holds the budget until then', async () => {
    const bounds = boundsOf(1000);
    const admission = Promise.withResolvers<void>();
    const admitted: number[] = [];
    const request = Object.assign(Readable.from([Buffer.from('{"a"'), Buffer.from(':1}')]), { headers: {} });
    const enter = (bytes: number) => {
      admitted.push(bytes);
      return admission.promise;
    };
    const value = readJsonObject(request as IncomingMessage, bounds, { enter });
    await until(() => admitted.length > 0);
    expect(admitted).to.deep.equal([7]);
    expect(bounds.budget.used).to.equal(512);
    admission.resolve();
    expect(await value).to.deep.equal({ a: 1 });
  });

  it('reads as many bytes as the limit, and none more', async () => {
    expect(await read(['{"a":"ü"}'], 10)).to.deep.equal({ a: 'ü' });
    expect(await refusal('{"a":"ü"}', 9)).to.deep.equal([413, 'request body too large']);
    expect(await refusal('x'.repeat(100), 9)).to.deep.equal([413, 'request body too large']);
  });

  it('rejects a body that is too large before it has arrived completely', async () => {
    async function* endless() {
      for (;;) yield Buffer.alloc(100, ' ');
    }
    const body = Object.assign(Readable.from(endless()), { headers: {} });
    const error = await readJsonObject(body as IncomingMessage, boundsOf(1000), turns).catch((error) => error);
    body.destroy();
    expect(error).to.include({ status: 413 });
  });

  describe('on a connection that ends with the answer', () => {
    const MIB = 1024 * 1024;

    /** Sends a body of `mib` MiB, which is refused. @returns the number of MiB read before the refusal */
    async function discarded(mib: number): Promise<number> {
      let read = 0;
      async function* chunks() {
        for (; read < mib; read++) yield Buffer.alloc(MIB, ' ');
      }
      const body = Object.assign(Readable.from(chunks()), { headers: { connection: 'close' } });
      const error = await readJsonObject(body as IncomingMessage, boundsOf(1000), turns).catch((error) => error);
      body.destroy();
      expect(error).to.include({ status: 413 });
      return read;
    }

    it('reads an oversized body to its end, so that the client gets to read the answer', async () => {
      expect(await discarded(16)).to.equal(16);
    });

    it('stops reading a body that is far over the limit', async () => {
      expect(await discarded(64)).to.be.within(17, 32);
    });
  });

  it('answers 503 once other bodies use up the budget, and frees what it held', async () => {
    const bounds = boundsOf(1000);
    bounds.budget.take(1000);
    const request = Object.assign(Readable.from([Buffer.alloc(600, ' '), Buffer.alloc(100, ' ')]), { headers: {} });
    const error = await readJsonObject(request as IncomingMessage, bounds, turns).catch((error) => error);
    expect(error).to.deep.include({ status: 503, message: 'server busy', headers: { 'Retry-After': '1' } });
    expect(error.overload).to.equal(true);
    expect(bounds.budget.used).to.equal(1000);
  });

  it('releases the budget, whether it succeeds or not', async () => {
    const bounds = boundsOf(1000);
    for (const text of ['{"a":1}', '{', 'x'.repeat(1001)]) {
      const request = Object.assign(Readable.from([Buffer.from(text)]), { headers: {} });
      await readJsonObject(request as IncomingMessage, bounds, turns).catch(() => {});
      expect(bounds.budget.used, text.slice(0, 10)).to.equal(0);
    }
  });

  it('ends with an error when the client goes away in the middle', async () => {
    const bounds = boundsOf(1000);
    const failed = Promise.withResolvers<unknown>();
    const begun = Promise.withResolvers<void>();
    const { listener } = await serve((request) => {
      readJsonObject(request, bounds, turns).then(failed.resolve, failed.resolve);
      begun.resolve();
    });
    const { socket } = await connectRaw(listener.port, 'POST / HTTP/1.1', 'Host: x', 'Content-Length: 100');
    socket.write('{"a":');
    await begun.promise;
    socket.destroy();
    expect(await failed.promise).to.be.instanceOf(HttpError);
    expect(bounds.budget.used).to.equal(0);
  });
});
