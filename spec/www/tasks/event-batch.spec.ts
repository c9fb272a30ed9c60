import { expect } from 'chai';
import { batches } from '../../../www/tasks/event-batch.ts';

describe('the batches of the event stream', () => {
  it('follow one another, and tell a gap and a pause', () => {
    const next = batches('e-1');
    expect(next('id: e-1\n\n')).to.equal(undefined);
    const { events, ...first } = next('id: e-2\nevent: purged\ndata: {"id":"t","at":5}\n\n') ?? { events: [] };
    expect(events).to.deep.equal([{ event: 'purged', id: 't', at: 5 }]);
    expect(first).to.deep.equal({ from: 'e-1', to: 'e-2', isGap: false, isPauseChange: false });
    expect(next(':\n\n')).to.equal(undefined);
    const pause = next('id: e-3\nevent: paused\ndata: {"at":5}\n\n');
    expect(pause).to.deep.equal({ from: 'e-2', to: 'e-3', events: [], isGap: false, isPauseChange: true });
    const gap = next('id: e-9\nevent: gap\ndata: {"missed":6}\n\n');
    expect(gap).to.deep.equal({ from: 'e-3', to: 'e-9', events: [], isGap: true, isPauseChange: false });
  });
});
