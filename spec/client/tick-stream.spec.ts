import { expect } from 'chai';
import { type StreamMessage, TickReader, TickStream } from '../../www/client/tick-stream.ts';
import { until } from '../support/until.ts';

const SYMBOLS = ['A', 'B', 'C'];

/** Creates a stream with a reader of all symbols, and what it has sent. */
function start() {
  const stream = new TickStream();
  const sent: object[] = [];
  const connection = { send: (message: object) => void sent.push(message), ping() {} };
  const receive = (message: StreamMessage) => stream.receive(message, connection);
  const reader = new TickReader();
  stream.add(reader);
  void reader.wait();
  return {
    ...{ stream, sent, reader, receive },
    welcome: () => receive({ type: 'welcome', interval_ms: 1_000, symbols: SYMBOLS }),
    tick(epoch: number, seqs: readonly number[], symbols = SYMBOLS) {
      for (const seq of seqs) {
        const data = symbols.map((symbol) => ({ symbol, price: seq, timestamp: 0 }));
        receive({ type: 'ticker', epoch, seq, data });
      }
    },
    /** Reads all ticks, as `epoch/seq`, and `+` with the number of missed ones if there are any. */
    read(own = reader) {
      const ticks: string[] = [];
      for (let tick = own.take(); tick !== undefined; tick = own.take()) {
        ticks.push(`${tick.epoch}/${tick.seq}${tick.missed > 0 ? `+${tick.missed}` : ''}`);
      }
      void own.wait();
      return ticks.join(' ');
    },
  };
}

/** Starts a stream that has read the tick 5 of epoch 1 and is connected again. */
function resumed() {
  const parts = start();
  parts.welcome();
  parts.tick(1, [5]);
  expect(parts.read()).to.equal('1/5');
  parts.stream.end();
  parts.welcome();
  expect(parts.sent).to.deep.equal([{ type: 'resume', epoch: 1, seq: 5 }]);
  return parts;
}

describe('the stream of the client', () => {
  it('starts with the newest tick, and continues after the last one on each later connection', () => {
    const { tick, read, stream, welcome, sent } = resumed();
    tick(1, [8, 9]);
    expect(read(), 'before the answer').to.equal('');
    tick(1, [6, 7]);
    stream.end();
    welcome();
    expect(sent.at(-1)).to.deep.equal({ type: 'resume', epoch: 1, seq: 7 });
    tick(1, [9, 8, 9, 10]);
    expect(read()).to.equal('1/6 1/7 1/8 1/9 1/10');
  });

  for (const [title, messages, expected] of [
    ['gets each tick once if one comes before the answer, or nothing was missed', '1/5,6,6,7', '1/6 1/7'],
    ['counts the ticks of a gap as missed, and skipped ones', '1/20 gap/6 1/18,19,20,23', '1/18+12 1/19 1/20 1/23+2'],
    ['does not know how many were missed if the epoch is unknown', '2/6 gap/unknown 2/0,1', '2/0+Infinity 2/1'],
    ['never goes back within an epoch', 'gap/unknown 1/3,4,5,6', '1/6+Infinity'],
    ['continues in the epoch of another leader, which repeats no number', '3/9 1/6 3/7,8', '1/6 3/7 3/8'],
  ] as const) {
    it(title, () => {
      const { tick, receive, read } = resumed();
      for (const [epoch, numbers = ''] of messages.split(' ').map((message) => message.split('/'))) {
        if (epoch !== 'gap') tick(Number(epoch), numbers.split(',').map(Number));
        else receive({ type: 'gap', from: numbers === 'unknown' ? null : Number(numbers) });
      }
      expect(read()).to.equal(expected);
    });
  }

  it('starts with the newest tick again once nobody has read', () => {
    const { tick, stream, reader, welcome, sent } = resumed();
    stream.readers.delete(reader);
    stream.end();
    const other = new TickReader();
    stream.add(other);
    welcome();
    tick(1, [100]);
    expect(sent).to.have.length(1);
    expect(other.take()).to.include({ seq: 100, missed: 0 });
  });

  it('asks for the symbols of all readers, once for several changes, and gives none of them an incomplete tick', async () => {
    const { stream, reader, tick, welcome, read, sent } = start();
    stream.readers.delete(reader);
    const first = new TickReader(['A', 'A']);
    stream.add(first);
    welcome();
    expect(sent).to.deep.equal([{ type: 'subscribe', symbols: ['A'] }]);
    tick(1, [1, 2], ['A']);
    const others = [new TickReader(['C']), new TickReader(['A', 'C'])];
    for (const other of others) {
      stream.add(other);
      stream.chooseSoon();
    }
    await until(() => sent.length > 1);
    expect(sent.slice(1)).to.deep.equal([{ type: 'subscribe', symbols: ['A', 'C'] }]);
    tick(1, [3], ['A']);
    tick(1, [3, 4], ['A', 'C']);
    for (const other of others) expect(read(other)).to.equal('1/3 1/4');
    expect(read(first)).to.equal('1/1 1/2 1/3 1/4');
    stream.readers.delete(first);
    stream.readers.delete(others[1] as TickReader);
    stream.chooseSoon();
    await until(() => sent.length > 2);
    expect(sent[2]).to.deep.equal({ type: 'subscribe', symbols: ['C'] });
    expect(() => new TickReader(['C', 'D']).check(SYMBOLS)).to.throw(RangeError, 'unknown symbol D');
  });
});
