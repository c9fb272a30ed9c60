import { expect } from 'chai';
import fc from 'fast-check';
import { IdempotencyKeys, KEY_LIFETIME_MS } from '../../../main/tasks/queue/idempotency-keys.ts';
import { KeyInUse, KeyReused } from '../../../main/tasks/queue/queue.ts';

const record = (key: string, acceptedAt = 0) => ({ key, fingerprint: 'x', taskId: `task of ${key}`, acceptedAt });
const refused = new Error('the disk is full');

/** Accepts a submission. Returns the evicted keys whose stored records are deleted with it. */
async function accept(keys: IdempotencyKeys, submission: ReturnType<typeof record>): Promise<readonly string[]> {
  let deleted: readonly string[] = [];
  await keys.accept(submission, async (evicted) => {
    deleted = evicted;
  });
  return deleted;
}

/** Begins to accept a submission. The returned function refuses it, and returns the evicted keys that the write named. */
function begin(keys: IdempotencyKeys, submission: ReturnType<typeof record>): () => Promise<readonly string[]> {
  const written = Promise.withResolvers<void>();
  let evictedKeys: readonly string[] = [];
  const accepted = keys.accept(submission, (evicted) => {
    evictedKeys = evicted;
    return written.promise;
  });
  return async () => {
    written.reject(refused);
    expect(await accepted.catch((error: unknown) => error)).to.equal(refused);
    return evictedKeys;
  };
}

const named = (key: string, fingerprint = 'x') => ({ key, fingerprint });

describe('IdempotencyKeys', () => {
  it('remembers a key for a day', () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 5));
    expect(KEY_LIFETIME_MS).to.equal(86_400_000);
    expect(keys.taskOf(named('a'), 5 + KEY_LIFETIME_MS - 1)).to.equal('task of a');
    expect(keys.taskOf(named('a'), 5 + KEY_LIFETIME_MS)).to.equal(undefined);
  });

  it('evicts keys older than a day when another one arrives, and reports them', async () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 0));
    keys.add(record('b', 1));
    expect(await accept(keys, record('c', KEY_LIFETIME_MS))).to.deep.equal(['a']);
    expect(await accept(keys, record('d', KEY_LIFETIME_MS + 1))).to.deep.equal(['b']);
    expect(keys.list().map(({ key }) => key)).to.deep.equal(['c', 'd']);
  });

  it('lets a key be used again after a day, without forgetting it', async () => {
    const keys = new IdempotencyKeys(10);
    keys.add(record('a', 0));
    expect(await accept(keys, record('a', KEY_LIFETIME_MS))).to.deep.equal([]);
    expect(keys.taskOf(named('a'), KEY_LIFETIME_MS + 1)).to.equal('task of a');
    expect(keys.size).to.equal(1);
  });

  it('refuses a key while its submission is under way, and frees it if that fails', async () => {
    const keys = new IdempotencyKeys(10);
    const fail = begin(keys, record('a'));
    expect(() => keys.taskOf(named('a'), 1)).to.throw(KeyInUse);
    expect(() => keys.taskOf(named('a', 'y'), 1)).to.throw(KeyReused);
    expect(keys.list()).to.deep.equal([]);
    await fail();
    expect(keys.taskOf(named('a', 'y'), 1)).to.equal(undefined);
    expect(keys.size).to.equal(0);
  });

  it('names an evicted key until its record is deleted', async () => {
    const keys = new IdempotencyKeys(1);
    // As a start does with a lower bound than the last one.
    for (const key of ['a', 'b', 'c']) keys.add(record(key));
    expect(await begin(keys, record('d'))()).to.deep.equal(['a', 'b', 'c']);
    expect(await accept(keys, record('e'))).to.deep.equal(['a', 'b', 'c']);
    expect(await accept(keys, record('f'))).to.deep.equal(['e']);
  });

  it('holds the newest within its bound and tells of each that goes, whatever comes', () =>
    fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 30 })), async (numbers) => {
        const keys = new IdempotencyKeys(5);
        let model: string[] = [];
        for (const [at, number] of numbers.entries()) {
          const key = String(number);
          const forgotten = await accept(keys, record(key, at));
          model = [...model.filter((each) => each !== key), key];
          expect(forgotten).to.deep.equal(model.splice(0, model.length - 5));
          expect(keys.list().map((each) => each.key)).to.deep.equal(model);
          expect(keys.size).to.equal(model.length);
        }
      }),
    ));
});
