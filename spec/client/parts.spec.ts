import { getEventListeners } from 'node:events';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { EventDecoder, EventStream } from '../../www/client/event-stream.ts';
import { HttpClient } from '../../www/client/http-client.ts';
import { type StreamMessage, TickReader, TickStream } from '../../www/client/tick-stream.ts';
import { backoff, linkedTo } from '../../www/client/waiting.ts';
import { afterTest } from '../support/cleanup.ts';
import { until } from '../support/until.ts';

const started = (id: string) =>
  `id: e-${id}\nevent: started\ndata: {"id":"t${id}","action":"a","at":5,"attempt":1}\n\n`;
const GAP = { event: 'gap' };

describe('the decoder of the event stream', () => {
  it('decodes events from parts of the text, however it is cut', () => {
    const text = `retry: 1000\nid: e-1\n\n:\n\n${started('2')}${started('3')}`;
    for (let length = 1; length <= text.length; length++) {
      const decoder = new EventDecoder('e-1');
      const events = [];
      for (let at = 0; at < text.length; at += length) events.push(...decoder.decode(text.slice(at, at + length)));
      expect(events).to.deep.equal([
        { event: 'started', id: 't2', action: 'a', at: 5, attempt: 1 },
        { event: 'started', id: 't3', action: 'a', at: 5, attempt: 1 },
      ]);
      expect(decoder.position).to.equal('e-3');
    }
  });

  it('reports a gap if the stream starts elsewhere, or the service says that events were missed', () => {
    expect(new EventDecoder(undefined).decode('id: e-1\n\n')).to.deep.equal([GAP]);
    expect(new EventDecoder('d-9').decode('id: e-1\n\n')).to.deep.equal([GAP]);
    expect(new EventDecoder('e-1').decode('id: e-9\nevent: gap\ndata: {"missed":8}\n\n')).to.deep.equal([GAP]);
    expect(new EventDecoder('e-1').decode('id: e-1\n\n:\n\n')).to.deep.equal([]);
  });
});

describe('the reader of the event stream', () => {
  it('tells each new position, that of a heartbeat without a gap, and connects again after broken JSON', async () => {
    const received: unknown[] = [];
    const broken = started('8').replace('}', '');
    const streams = [['id: e-1\n\n', 'id: e-7\n\n', broken], [`id: e-7\n\n${started('8')}`]];
    const fetch = async () =>
      new Response(Readable.from((streams.shift() ?? []).map((part) => Buffer.from(part))) as never);
    const listener = { onStatus() {}, onEvents: (...batch: unknown[]) => void received.push(batch) };
    const stream = new EventStream(new HttpClient('http://localhost', { fetch }), listener);
    afterTest(() => stream.stop('test'));
    stream.start();
    await until(() => received.length > 2);
    expect(received).to.deep.equal([
      [[GAP], undefined, 'e-1'],
      [[], 'e-1', 'e-7'],
      [[{ event: 'started', id: 't8', action: 'a', at: 5, attempt: 1 }], 'e-7', 'e-8'],
    ]);
  });
});

describe('the backoff of the clients', () => {
  it('draws from zero to a bound that doubles with each failure, up to 15 s', () => {
    const bounds = Array.from({ length: 40 }, (_, failures) => backoff(failures, () => 1));
    expect(bounds.slice(0, 6)).to.deep.equal([1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
    expect(bounds.at(-1)).to.equal(15_000);
    expect(backoff(3, () => 0)).to.equal(0);
    expect(backoff(3, () => 0.5)).to.equal(4_000);
  });
});

describe('a controller linked to signals', () => {
  it('is aborted with the first of them, and shares one listener of each with others, which leave none', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const listeners = () => [one, two].map(({ signal }) => getEventListeners(signal, 'abort').length);
    const linked = Array.from({ length: 20 }, () => linkedTo(one.signal, two.signal));
    for (const each of linked.slice(0, 10)) each.abort();
    expect(listeners()).to.deep.equal([1, 1]);
    one.abort('enough');
    expect(linked.map(({ signal }) => signal.reason).slice(10)).to.deep.equal(Array(10).fill('enough'));
    expect(listeners()).to.deep.equal([0, 0]);
    expect(linkedTo(two.signal, one.signal).signal.reason).to.equal('enough');
    expect(linkedTo(one.signal, two.signal).signal.reason).to.equal('enough');
    expect(listeners()).to.deep.equal([0, 0]);
  });
});

const SYMBOLS = ['A', 'B', 'C'];

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
      for (let tick = own.take(); tick !== undefined; tick = own.take())
        ticks.push(`${tick.epoch}/${tick.seq}${tick.missed > 0 ? `+${tick.missed}` : ''}`);
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
