import { expect } from 'chai';
import { type CloseCode, closeCodes } from '../../../main/ticker/pid-registry.ts';
import { ClosedError } from '../../../www/client/errors.ts';
import { CLOSE_WORDS, Diagnostics, MAX_CHARACTERS } from '../../../www/ticker/diagnostics.ts';

const INTERVAL_MS = 1_000;

describe('the diagnostics of the connection', () => {
  it('have the percentiles of the last hundred round trips', () => {
    const diagnostics = new Diagnostics();
    const roundTrip = () => diagnostics.readings(0, INTERVAL_MS).roundTrip;
    expect(roundTrip()).to.equal(undefined);
    diagnostics.pongReceived(7);
    expect(roundTrip()).to.deep.equal({ p50: 7, p95: 7 });
    for (let sample = 0; sample < 100; sample++) diagnostics.pongReceived(1_000);
    for (let sample = 100; sample > 0; sample--) diagnostics.pongReceived(sample);
    expect(roundTrip()).to.deep.equal({ p50: 50, p95: 95 });
  });

  it('have the age of the newest prices, and the mean deviation of ticks from the interval', () => {
    const diagnostics = new Diagnostics();
    expect(diagnostics.readings(0, INTERVAL_MS)).to.include({ tickAge: undefined, jitter: undefined });
    diagnostics.opened(0);
    for (const now of [1_000, 2_000, 3_030, 4_000]) diagnostics.tickReceived(0, now, INTERVAL_MS);
    expect(diagnostics.readings(4_250, INTERVAL_MS)).to.include({ tickAge: 250, jitter: 20 });
  });

  it('have no jitter between two connections, or in the first interval of one, which has a snapshot or resumed ticks', () => {
    const diagnostics = new Diagnostics();
    for (const openedAt of [0, 60_300]) {
      diagnostics.opened(openedAt);
      for (const after of [10, 11, 12, 700, 1_000, 2_000]) diagnostics.tickReceived(0, openedAt + after, INTERVAL_MS);
    }
    expect(diagnostics.readings(0, INTERVAL_MS).jitter).to.equal(0);
  });

  it('count the ticks that were missed, also if some of them are of an unknown number', () => {
    const diagnostics = new Diagnostics();
    for (const each of [0, 2, 0, 3]) diagnostics.tickReceived(each, 0, INTERVAL_MS);
    expect(diagnostics.readings(0, INTERVAL_MS)).to.include({ missedTicks: 5, hasMissedMore: false });
    for (const each of [Number.POSITIVE_INFINITY, 1]) diagnostics.tickReceived(each, 0, INTERVAL_MS);
    expect(diagnostics.readings(0, INTERVAL_MS)).to.include({ missedTicks: 6, hasMissedMore: true });
  });

  it('have frames that are cut off if they are very long, with their full size', () => {
    const diagnostics = new Diagnostics();
    diagnostics.frameReceived('x'.repeat(2 * MAX_CHARACTERS), 0);
    const [frame] = diagnostics.frames.value;
    expect([frame?.text.length, frame?.bytes]).to.deep.equal([MAX_CHARACTERS, 2 * MAX_CHARACTERS]);
  });

  it('say why a connection was closed in the words of the service, and in their own for codes without a reason', () => {
    const diagnostics = new Diagnostics();
    const words = (error: Error) => {
      diagnostics.closed(error, 5);
      expect(diagnostics.readings(0, INTERVAL_MS).lastClose?.at).to.equal(5);
      return diagnostics.readings(0, INTERVAL_MS).lastClose?.text;
    };
    for (const { code, reason } of Object.values(closeCodes) as CloseCode[])
      expect(words(new ClosedError(code, reason)))
        .to.equal(`${code}: ${reason || CLOSE_WORDS[code]}`)
        .and.not.include('undefined');
    expect(words(new ClosedError(1001, ''))).to.equal('1001: server is shutting down');
    expect(words(new Error('refused'))).to.equal('1006: connection lost or refused');
  });
});
