import { expect } from 'chai';
import { EventDecoder } from '../../../www/tasks/event-batch.ts';

const started = (id: string) =>
  `id: e-${id}\nevent: started\ndata: {"id":"t${id}","action":"a","at":5,"attempt":1}\n\n`;

describe('the decoder of the event stream', () => {
  it('decodes events from parts of the text, however it is cut', () => {
    const text = `retry: 1000\nid: e-1\n\n:\n\n${started('2')}${started('3')}`;
    for (let length = 1; length <= text.length; length++) {
      const decoder = new EventDecoder('e-1');
      const batches = [];
      for (let at = 0; at < text.length; at += length) batches.push(decoder.decode(text.slice(at, at + length)));
      const found = batches.filter((batch) => batch !== undefined);
      expect(found.flatMap(({ events }) => events)).to.deep.equal([
        { event: 'started', id: 't2', action: 'a', at: 5, attempt: 1 },
        { event: 'started', id: 't3', action: 'a', at: 5, attempt: 1 },
      ]);
      expect(found.some(({ isGap }) => isGap)).to.equal(false);
      expect([found[0]?.from, found.at(-1)?.to]).to.deep.equal(['e-1', 'e-3']);
      for (const [index, { from }] of found.entries()) if (index > 0) expect(from).to.equal(found[index - 1]?.to);
    }
  });

  it('reports a gap if the stream starts elsewhere, or the service says that events were missed', () => {
    expect(new EventDecoder(undefined).decode('id: e-1\n\n')?.isGap).to.equal(true);
    expect(new EventDecoder('d-9').decode('id: e-1\n\n')?.isGap).to.equal(true);
    const gap = new EventDecoder('e-1').decode('id: e-9\nevent: gap\ndata: {"missed":8}\n\n');
    expect(gap).to.deep.equal({ from: 'e-1', to: 'e-9', events: [], isGap: true, isPauseChange: false });
  });

  it('reports that the queue was paused or resumed, and nothing for a heartbeat', () => {
    const decoder = new EventDecoder('e-1');
    expect(decoder.decode(':\n\n')).to.equal(undefined);
    expect(decoder.decode('id: e-2\nevent: paused\ndata: {"at":5}\n\n')?.isPauseChange).to.equal(true);
    expect(decoder.decode('id: e-3\nevent: resumed\ndata: {"at":6}\n\n')?.isPauseChange).to.equal(true);
  });
});
