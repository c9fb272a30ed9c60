import { getEventListeners } from 'node:events';
import { Readable } from 'node:stream';
import { expect } from 'chai';
import { EventDecoder, EventStream } from '../../www/client/event-stream.ts';
import { HttpClient } from '../../www/client/http-client.ts';
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
