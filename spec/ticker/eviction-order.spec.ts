import { expect } from 'chai';
import fc from 'fast-check';
import { EvictionOrder } from '../../main/ticker/eviction-order.ts';

describe('the eviction order of the tokens of an API key', () => {
  it('is by order, then by id, whatever was added and removed before', () => {
    const add = fc.record({ id: fc.nat(200).map(String), order: fc.nat(20) });
    const remove = fc.constantFrom('oldest' as const, 'newest' as const);
    const operations = fc.array(fc.oneof({ weight: 3, arbitrary: add }, remove, fc.nat(200).map(String)), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(operations, (all) => {
        const order = new EvictionOrder();
        let model: { id: string; order: number }[] = [];
        for (const operation of all) {
          if (typeof operation === 'object') {
            if (model.some(({ id }) => id === operation.id)) continue;
            order.add(operation.id, operation.order);
            model = [...model, operation].toSorted((a, b) => a.order - b.order || (a.id < b.id ? -1 : 1));
          } else {
            const named = { oldest: model[0]?.id, newest: model.at(-1)?.id }[operation as 'oldest' | 'newest'];
            const id = named ?? operation;
            order.remove(id);
            model = model.filter((entry) => entry.id !== id);
          }
          expect([order.size, order.oldest, order.newestOrder]).to.deep.equal([
            model.length,
            model[0]?.id,
            model.at(-1)?.order ?? 0,
          ]);
        }
      }),
    );
  });

  it('is that of issue while the newest token evicts the oldest', () => {
    const order = new EvictionOrder();
    for (let token = 1; token <= 1000; token++) {
      order.add(String(token), order.newestOrder + 1);
      if (order.size > 10) {
        expect(order.oldest).to.equal(String(token - 10));
        order.remove(String(token - 10));
      }
      expect([order.size, order.newestOrder]).to.deep.equal([Math.min(token, 10), token]);
    }
  });

  it('stays the same when an unknown token is removed', () => {
    const order = new EvictionOrder();
    order.remove('a');
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) order.add(id, 1);
    order.remove('a');
    order.remove('a');
    order.remove('x');
    expect([order.size, order.oldest]).to.deep.equal([5, 'b']);
  });
});
