import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import fc from 'fast-check';
import { ConnectionLimiter } from '../../main/http/connection-limiter.ts';
import { HttpError } from '../../main/http/errors.ts';

/** Returns 101, or the status of the refusal. */
function acquire(limiter: ConnectionLimiter, socket: PassThrough, address: string): number {
  try {
    limiter.acquire(socket, address);
    return 101;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    expect(error.headers).to.deep.equal({ 'Retry-After': '5' });
    return error.status;
  }
}

const closed = (socket: PassThrough) => new Promise((resolve) => socket.destroy().once('close', resolve));

describe('the connection limiter', () => {
  it('gives no slot to a closed socket', async () => {
    const limiter = new ConnectionLimiter({ maxConnections: 1, maxConnectionsPerAddress: 1 });
    const gone = new PassThrough();
    await closed(gone);
    limiter.acquire(gone, 'a');
    expect([limiter.taken, limiter.addresses]).to.deep.equal([0, 0]);
  });

  it('keeps the slot of a destroyed socket until it is closed', async () => {
    const limiter = new ConnectionLimiter({ maxConnections: 1, maxConnectionsPerAddress: 1 });
    const going = new PassThrough({ destroy: (_error, done) => void setImmediate(done) });
    const gone = closed(going);
    limiter.acquire(going, 'a');
    expect(limiter.taken).to.equal(1);
    await gone;
    expect([limiter.taken, limiter.addresses]).to.deep.equal([0, 0]);
  });

  it('grants no more slots than allowed, and exactly those of the open sockets', async () => {
    const steps = fc.array(fc.record({ open: fc.boolean(), of: fc.nat(), address: fc.constantFrom('a', 'b', 'c') }), {
      maxLength: 60,
    });
    const bounds = fc.record({
      maxConnections: fc.integer({ min: 1, max: 8 }),
      maxConnectionsPerAddress: fc.integer({ min: 1, max: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(bounds, steps, async (bound, all) => {
        const limiter = new ConnectionLimiter(bound);
        const open: { socket: PassThrough; address: string }[] = [];
        for (const { open: opens, of, address } of all) {
          const own = open.filter((each) => each.address === address).length;
          if (opens) {
            const socket = new PassThrough();
            const expected =
              own >= bound.maxConnectionsPerAddress ? 429 : open.length >= bound.maxConnections ? 503 : 101;
            expect(acquire(limiter, socket, address)).to.equal(expected);
            if (expected === 101) open.push({ socket, address });
            else await closed(socket);
          } else if (open.length > 0) {
            const [leaving] = open.splice(of % open.length, 1);
            if (leaving !== undefined) await closed(leaving.socket);
          }
          expect(limiter.taken).to.equal(open.length);
          expect(limiter.addresses).to.equal(new Set(open.map((each) => each.address)).size);
        }
      }),
      { numRuns: 100 },
    );
  });

  it('frees a slot that is released early, and only once', async () => {
    const limiter = new ConnectionLimiter({ maxConnections: 2, maxConnectionsPerAddress: 1 });
    const [first, second] = [new PassThrough(), new PassThrough()];
    expect(acquire(limiter, first, 'a')).to.equal(101);
    limiter.release(first);
    expect(acquire(limiter, second, 'a')).to.equal(101);
    await closed(first);
    expect(limiter.taken).to.equal(1);
    expect(acquire(limiter, new PassThrough(), 'a')).to.equal(429);
  });
});
