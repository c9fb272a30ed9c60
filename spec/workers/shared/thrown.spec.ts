import { expect } from 'chai';
import { readThrown } from '../../../workers/shared/thrown.ts';
import { freePort } from '../../support/free-port.ts';

const refuse = () => {
  throw new Error('no');
};
const circular = new Error('circular');
circular.cause = circular;

describe('readThrown', () => {
  it('reads anything that can be thrown', () => {
    for (const [thrown, reason] of [
      ...[[null, 'null'] as const, [undefined, 'undefined'] as const, ['text', 'text'] as const],
      [Symbol('odd'), 'Symbol(odd)'],
      [Object.defineProperty(new Error(), 'message', { get: refuse }), 'an error that cannot be read'],
      [Object.defineProperty(new Error('nameless'), 'name', { get: refuse }), 'nameless'],
      [new Proxy({}, { get: refuse, getPrototypeOf: refuse }), 'an error that cannot be read'],
      [circular, 'circular'],
    ] as const)
      expect(readThrown(thrown).reason).to.equal(reason);
  });

  it('adds the cause, or its code, to the message of a failed fetch, which says nothing, and to no other message', async () => {
    const port = await freePort();
    const failed = await fetch(`http://127.0.0.1:${port}`).catch((error: unknown) => error);
    expect(readThrown(failed).reason).to.equal(`fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`);
    // The cause of a `fetch` from a host name with several addresses.
    const cause = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
    expect(readThrown(new TypeError('fetch failed', { cause })).reason).to.equal('fetch failed: ECONNREFUSED');
    expect(readThrown(new TypeError('fetch failed')).reason).to.equal('fetch failed');
    expect(readThrown(new Error('no stock', { cause: new Error('row 7') })).reason).to.equal('no stock');
  });
});
