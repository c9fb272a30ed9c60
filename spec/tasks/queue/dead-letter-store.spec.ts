import { expect } from 'chai';
import fc from 'fast-check';
import { DeadLetterStore, deadLetterBounds } from '../../../main/tasks/queue/dead-letter-store.ts';
import type { DeadLetter } from '../../../main/tasks/queue/queue.ts';

function letter(id: string, body = '', reason = ''): DeadLetter {
  return { id, body, sequence: 1, reason, attempts: 1, permanent: false, history: [], acceptedAt: 1, failedAt: 2 };
}

/**
 * Returns the memory of the bodies. V8 stores a body with two bytes per character if any character needs two,
 * otherwise with one.
 */
const memory = (bodies: string[]) =>
  bodies.reduce(
    (sum, body) => sum + Buffer.byteLength(body, [...body].some((each) => each > 'ÿ') ? 'utf16le' : 'latin1'),
    0,
  );

const ids = (letters: DeadLetterStore) => letters.list().map(({ id }) => id);

describe('DeadLetterStore', () => {
  it('keeps what it is given, oldest first', () => {
    const letters = new DeadLetterStore();
    const all = [letter('a', '{}'), letter('b'), letter('c')];
    for (const one of all) letters.add(one);
    expect(letters.list()).to.deep.equal(all);
    expect(letters.size).to.equal(3);
    expect(letters.dropped).to.equal(0);
  });

  it('drops the oldest past its bound by number, and counts them', () => {
    const letters = new DeadLetterStore({ maxLength: 2, maxBytes: 100 });
    for (const id of ['a', 'b', 'c', 'd']) letters.add(letter(id));
    expect(ids(letters)).to.deep.equal(['c', 'd']);
    expect(letters.dropped).to.equal(2);
    expect(letters.evicted).to.equal(2);
    letters.drop(letters.get('c') as DeadLetter);
    expect([letters.dropped, letters.evicted]).to.deep.equal([3, 2]);
  });

  it('drops as many of the oldest as it takes to be within its bound by bytes', () => {
    const letters = new DeadLetterStore({ maxLength: 100, maxBytes: 10 });
    for (const id of ['a', 'b', 'c']) letters.add(letter(id, '123'));
    letters.add(letter('d', '1234567'));
    expect(ids(letters)).to.deep.equal(['c', 'd']);
    expect(letters.dropped).to.equal(2);
  });

  it('lists each with the size of its body, its reason and its history', () => {
    const letters = new DeadLetterStore();
    const history = [
      { at: 1, reason: 'one' },
      { at: 2, reason: 'ä' },
    ];
    letters.add({ ...letter('a', '{}', 'ä'), history });
    expect(letters.newest(1).map(({ bytes }) => bytes)).to.deep.equal([2 + 2 + 3 + 2]);
  });

  it('counts the memory of bodies and reasons', () => {
    const letters = new DeadLetterStore({ maxLength: 100, maxBytes: 10 });
    letters.add(letter('a', 'äö', '€'));
    letters.add(letter('b', 'ä€', 'ü2'));
    expect(letters.dropped).to.equal(0);
    letters.add(letter('c', 'x'));
    expect(ids(letters)).to.deep.equal(['b', 'c']);
    letters.startRemoval(letters.get('b') as DeadLetter, 'redrive');
    letters.add(letter('d', '123456789'));
    expect(ids(letters)).to.deep.equal(['c', 'd']);
  });

  it('does not keep one that is larger than its bound', () => {
    const letters = new DeadLetterStore({ maxLength: 100, maxBytes: 10 });
    letters.add(letter('a', '12345678901'));
    expect(ids(letters)).to.deep.equal([]);
    expect(letters.dropped).to.equal(1);
    letters.add(letter('b', '1234567890'));
    expect(ids(letters)).to.deep.equal(['b']);
  });

  it('keeps the newest within both bounds and counts the rest, whatever comes', () => {
    const bounds = { maxLength: 5, maxBytes: 40 };
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 20 })), (bodies) => {
        const letters = new DeadLetterStore(bounds);
        const kept: string[] = [];
        for (const [index, body] of bodies.entries()) {
          letters.add(letter(String(index), body));
          kept.push(body);
          while (kept.length > bounds.maxLength || memory(kept) > bounds.maxBytes) kept.shift();
        }
        expect(letters.list().map(({ body }) => body)).to.deep.equal(kept);
        expect(letters.size).to.equal(kept.length);
        expect(letters.dropped).to.equal(bodies.length - kept.length);
      }),
    );
  });

  it('is bounded where nothing else is said', () => {
    expect(deadLetterBounds).to.deep.equal({ maxLength: 10_000, maxBytes: 33_554_432 });
  });
});
