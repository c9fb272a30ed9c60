import { expect } from 'chai';
import fc from 'fast-check';
import { BodyBuffer } from '../../main/http/body-buffer.ts';
import { ByteBudget } from '../../main/http/byte-budget.ts';

const MIB = 1024 * 1024;

function start({ limit = MIB, budgetBytes = 2 * MIB, contentLength }: Partial<Record<string, number>> = {}) {
  const budget = new ByteBudget(budgetBytes);
  return { budget, body: new BodyBuffer({ limit, budget }, contentLength?.toString()) };
}

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
