import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import fc from 'fast-check';
import { HttpError } from '../../main/http/errors.ts';
import { ConnectionPlaces } from '../../main/ticker/connection-places.ts';

/** What became of a wish for a place: 101, or the status of the refusal. */
function take(places: ConnectionPlaces, socket: PassThrough, address: string): number {
  try {
    places.take(socket, address);
    return 101;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    expect(error.headers).to.deep.equal({ 'Retry-After': '5' });
    return error.status;
  }
}

const closed = (socket: PassThrough) => new Promise((resolve) => socket.destroy().once('close', resolve));

describe('the places for connections', () => {
  it('are given to no socket that is closed', async () => {
    const places = new ConnectionPlaces({ maxConnections: 1, maxConnectionsPerAddress: 1 });
    const gone = new PassThrough();
    await closed(gone);
    places.take(gone, 'a');
    expect([places.taken, places.addresses]).to.deep.equal([0, 0]);
  });

  it('come back from a socket that is destroyed, but not closed yet', async () => {
    const places = new ConnectionPlaces({ maxConnections: 1, maxConnectionsPerAddress: 1 });
    const going = new PassThrough({ destroy: (_error, done) => void setImmediate(done) });
    const gone = closed(going);
    places.take(going, 'a');
    expect(places.taken).to.equal(1);
    await gone;
    expect([places.taken, places.addresses]).to.deep.equal([0, 0]);
  });

  it('are never more than allowed, and exactly those of the open sockets', async () => {
    const steps = fc.array(fc.record({ open: fc.boolean(), of: fc.nat(), address: fc.constantFrom('a', 'b', 'c') }), {
      maxLength: 60,
    });
    const bounds = fc.record({
      maxConnections: fc.integer({ min: 1, max: 8 }),
      maxConnectionsPerAddress: fc.integer({ min: 1, max: 8 }),
    });
    await fc.assert(
      fc.asyncProperty(bounds, steps, async (bound, all) => {
        const places = new ConnectionPlaces(bound);
        const open: { socket: PassThrough; address: string }[] = [];
        for (const { open: opens, of, address } of all) {
          const own = open.filter((each) => each.address === address).length;
          if (opens) {
            const socket = new PassThrough();
            const expected =
              own >= bound.maxConnectionsPerAddress ? 429 : open.length >= bound.maxConnections ? 503 : 101;
            expect(take(places, socket, address)).to.equal(expected);
            if (expected === 101) open.push({ socket, address });
            else await closed(socket);
          } else if (open.length > 0) {
            const [leaving] = open.splice(of % open.length, 1);
            if (leaving !== undefined) await closed(leaving.socket);
          }
          expect(places.taken).to.equal(open.length);
          expect(places.addresses).to.equal(new Set(open.map((each) => each.address)).size);
        }
      }),
      { numRuns: 100 },
    );
  });
});
