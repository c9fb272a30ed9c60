import { expect } from 'chai';
import fc from 'fast-check';
import { IdempotencyKeys, KEY_LIFETIME_MS } from '../../../main/tasks/queue/idempotency-keys.ts';
import { KeyInUse, KeyReused } from '../../../main/tasks/queue/queue.ts';

const record = (key: string, acceptedAt = 0) => ({ key, fingerprint: 'x', taskId: `task of ${key}`, acceptedAt });
const named = (key: string, fingerprint = 'x') => ({ key, fingerprint });

describe('IdempotencyKeys', () => {
  it('remembers a key for a day', () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 5));
    expect(KEY_LIFETIME_MS).to.equal(86_400_000);
    expect(keys.taskOf(named('a'), 5 + KEY_LIFETIME_MS - 1)).to.equal('task of a');
    expect(keys.taskOf(named('a'), 5 + KEY_LIFETIME_MS)).to.equal(undefined);
  });

  it('evicts keys older than a day when another one arrives, and reports them', () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 0));
    keys.add(record('b', 1));
    expect(keys.reserve(record('c', KEY_LIFETIME_MS))).to.deep.equal(['a']);
    keys.settle('c', ['a']);
    expect(keys.reserve(record('d', KEY_LIFETIME_MS + 1))).to.deep.equal(['b']);
    keys.settle('d', ['b']);
    expect(keys.list().map(({ key }) => key)).to.deep.equal(['c', 'd']);
  });

  it('lets a key be used again after a day, without forgetting it', () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 0));
    expect(keys.reserve(record('a', KEY_LIFETIME_MS))).to.deep.equal([]);
    keys.settle('a', []);
    expect(keys.taskOf(named('a'), KEY_LIFETIME_MS + 1)).to.equal('task of a');
    expect(keys.size).to.equal(1);
  });

  it('refuses a key while its submission is under way, and frees it if that fails', () => {
    const keys = new IdempotencyKeys(10);
    keys.reserve(record('a'));
    expect(() => keys.taskOf(named('a'), 1)).to.throw(KeyInUse);
    expect(() => keys.taskOf(named('a', 'y'), 1)).to.throw(KeyReused);
    expect(keys.list()).to.deep.equal([]);
    keys.settle('a', undefined);
    expect(keys.taskOf(named('a', 'y'), 1)).to.equal(undefined);
    expect(keys.size).to.equal(0);
  });

  it('names an evicted key until its record is deleted', () => {
    const keys = new IdempotencyKeys(1);
    // As a start does with a lower bound than the last one.
    for (const key of ['a', 'b', 'c']) keys.add(record(key));
    expect(keys.reserve(record('d'))).to.deep.equal(['a', 'b', 'c']);
    keys.settle('d', undefined);
    expect(keys.reserve(record('e'))).to.deep.equal(['a', 'b', 'c']);
    keys.settle('e', ['a', 'b', 'c']);
    expect(keys.reserve(record('f'))).to.deep.equal(['e']);
  });

  it('holds the newest within its bound and tells of each that goes, whatever comes', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 30 })), (numbers) => {
        const keys = new IdempotencyKeys(5);
        let model: string[] = [];
        for (const [at, number] of numbers.entries()) {
          const key = String(number);
          const forgotten = keys.reserve(record(key, at));
          keys.settle(key, forgotten);
          model = [...model.filter((each) => each !== key), key];
          expect(forgotten).to.deep.equal(model.splice(0, model.length - 5));
          expect(keys.list().map((each) => each.key)).to.deep.equal(model);
          expect(keys.size).to.equal(model.length);
        }
      }),
    );
  });
});
