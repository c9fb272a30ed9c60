import { expect } from 'chai';
import { orderRows } from '../../../www/tasks/row-order.ts';

const kept =
  (...ids: string[]) =>
  (id: string) =>
    ids.includes(id);

describe('the order of rows', () => {
  it('is that of the list', () => {
    expect(orderRows(['c', 'b'], ['b', 'a'], kept())).to.deep.equal(['c', 'b']);
  });

  it('leaves a kept row in its place although it is no longer listed', () => {
    expect(orderRows(['a', 'c', 'd'], ['a', 'b', 'c'], kept('b'))).to.deep.equal(['a', 'b', 'c', 'd']);
    expect(orderRows(['z'], ['a', 'b', 'c'], kept('c'))).to.deep.equal(['z', 'c']);
    expect(orderRows(['a', 'b'], ['a', 'b'], kept('b'))).to.deep.equal(['a', 'b']);
  });
});
