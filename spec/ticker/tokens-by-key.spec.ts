import { expect } from 'chai';
import fc from 'fast-check';
import { type OrderedToken, TokensByKey } from '../../main/ticker/tokens-by-key.ts';

describe('the tokens of each API key', () => {
  it('are the same newest ones, in whatever sequence they are added', () => {
    const tokens = fc.uniqueArray(
      fc.record({ id: fc.string(), keyId: fc.constantFrom('a', 'b'), order: fc.integer({ min: 1, max: 9 }) }),
      { selector: ({ id }) => id, maxLength: 30 },
    );
    const sequences = tokens.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
    );
    const kept = (all: OrderedToken[], max: number) => {
      const byKey = new TokensByKey(max);
      const evicted = new Set(all.map((token) => byKey.add(token)?.id));
      return new Set(all.map(({ id }) => id).filter((id) => !evicted.has(id)));
    };
    fc.assert(
      fc.property(sequences, fc.integer({ min: 1, max: 5 }), ([all, shuffled], max) => {
        expect(kept(shuffled, max)).to.deep.equal(kept(all, max));
        for (const keyId of ['a', 'b']) {
          const ofKey = all.filter((token) => token.keyId === keyId);
          expect(ofKey.filter(({ id }) => kept(all, max).has(id))).to.have.lengthOf(Math.min(max, ofKey.length));
        }
      }),
    );
  });

  it('are removed when deleted, and their key with the last of them', () => {
    const byKey = new TokensByKey(1);
    byKey.add({ id: 'a', keyId: 'k', order: byKey.next('k') });
    expect([byKey.isFull('k'), byKey.next('k')]).to.deep.equal([true, 2]);
    byKey.delete({ id: 'a', keyId: 'k' });
    byKey.delete({ id: 'a', keyId: 'k' });
    expect([byKey.isFull('k'), byKey.next('k')]).to.deep.equal([false, 1]);
  });
});
