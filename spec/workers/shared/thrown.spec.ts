import { expect } from 'chai';
import { readThrown } from '../../../workers/shared/thrown.ts';
import { freePort } from '../../support/free-port.ts';

describe('readThrown', () => {
  it('adds the cause to the message of a failed fetch, which says nothing', async () => {
    const port = await freePort();
    const failed = await fetch(`http://127.0.0.1:${port}`).catch((error: unknown) => error);
    expect(readThrown(failed).reason).to.equal(`fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`);
  });

  it('names the code of a cause without a message', () => {
    // The cause of a `fetch` from a host name with several addresses.
    const cause = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
    expect(readThrown(new TypeError('fetch failed', { cause })).reason).to.equal('fetch failed: ECONNREFUSED');
    expect(readThrown(new TypeError('fetch failed')).reason).to.equal('fetch failed');
  });

  it('leaves other messages as they are, so that equal failures have equal reasons', () => {
    expect(readThrown(new Error('no stock', { cause: new Error('row 7') })).reason).to.equal('no stock');
  });
});
