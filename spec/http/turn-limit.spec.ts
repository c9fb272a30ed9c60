import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { TurnLimit } from '../../main/http/turn-limit.ts';

describe('TurnLimit', () => {
  it('lets work begin up to the limit of a turn, and again in the next one', async () => {
    const turns = new TurnLimit(2);
    for (let turn = 0; turn < 3; turn++) {
      expect([turns.take(1), turns.take(1), turns.take(1)]).to.deep.equal([true, true, false]);
      await setImmediate();
    }
  });

  it('begins deferred work in the order of the calls, and other work only after it', async () => {
    const turns = new TurnLimit(2);
    const begun: string[] = [];
    for (const name of ['a', 'b', 'c']) turns.defer(1, () => begun.push(name));
    expect(turns.take(1)).to.equal(false);
    await setImmediate();
    expect(begun).to.deep.equal(['a', 'b']);
    expect(turns.take(1)).to.equal(false);
    await setImmediate();
    expect(begun).to.deep.equal(['a', 'b', 'c']);
    expect(turns.take(1)).to.equal(true);
  });
});
