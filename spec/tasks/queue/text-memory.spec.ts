import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { DeadLetterStore } from '../../../main/tasks/queue/dead-letter-store.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import { textMemoryBytes } from '../../../main/tasks/queue/text-memory.ts';
import { discard, openInbox, retry } from '../../drivers/inbox.ts';
import { afterTest } from '../../support/cleanup.ts';
import { liveHeapBytes } from '../../support/heap.ts';

const MIB = 1024 * 1024;
const ALPHABETS = { ASCII: 'a', 'Latin-1': 'é', 'one euro sign': '€a', 'two-byte': '€', emoji: '😀' };

/**
 * Returns a body whose text has `length` characters, as a submission creates it. The last character of the alphabet
 * is the filler.
 */
function bodyOf(alphabet: string, length: number): string {
  const [first = '', last = first] = alphabet;
  const text = first + last.repeat(length / last.length);
  return JSON.stringify({ id: randomUUID(), ...JSON.parse(JSON.stringify({ data: { text } })) });
}

describe('the bytes that a queue counts', () => {
  it('are two a character with one beyond Latin-1 in the text, else one; body and reason by themselves', () => {
    expect(textMemoryBytes({ body: 'aé\u00ff', reason: null })).to.equal(3);
    expect(textMemoryBytes({ body: 'aé\u0100', reason: 'why' })).to.equal(6 + 3);
    expect(textMemoryBytes({ body: '', reason: '😀' })).to.equal(4);
  });

  for (const [name, alphabet] of Object.entries(ALPHABETS)) {
    it(`are the memory that they take: ${name}`, async () => {
      const before = await liveHeapBytes();
      const queue = new LocalQueue({ maxLength: 1000, maxBytes: 100 * MIB, maxKeys: 10 });
      afterTest(() => queue.close());
      // Many messages, because the heap also holds leftovers of other specs.
      for (let id = 0; id < 200; id++) await queue.publish({ id: `${id}`, body: bodyOf(alphabet, 100_000) });
      const taken = (await liveHeapBytes()) - before;
      // Garbage of other specs is noise, and a wrong width of characters a factor of two.
      expect(queue.counts().bytes / taken).to.be.within(0.7, 1.4);
    });
  }

  it('bound the memory of messages whatever their characters are', async () => {
    const queue = new LocalQueue({ maxLength: 10, maxBytes: 10, maxKeys: 10 });
    afterTest(() => queue.close());
    expect(await queue.publish({ id: 'a', body: '€€€' })).to.equal('a');
    const refusal = await queue.publish({ id: 'b', body: '€€€' }).catch(({ message }) => message);
    expect(refusal).to.equal('the queue holds 6 bytes');
    expect(await queue.publish({ id: 'b', body: 'üüüü' })).to.equal('b');
    expect(queue.counts().bytes).to.equal(10);
  });

  it('include the reasons of all failed attempts, equal ones once, and are zero in the end', async () => {
    const letters = new DeadLetterStore({ maxLength: 10, maxBytes: 1 + 4 + 2 + 'it failed'.length });
    const queue = new LocalQueue({ maxLength: 10, maxBytes: 10, maxKeys: 10 }, { deadLetters: letters });
    afterTest(() => queue.close());
    await queue.publish({ id: 'a', body: 'a' });
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(retry());
    expect(queue.counts().bytes).to.equal(1 + 'it failed'.length);
    await (await inbox.next()).settle({ ...retry(), reason: '€' });
    expect(queue.counts().bytes).to.equal(1 + 2 + 'it failed'.length);
    await (await inbox.next()).settle(retry());
    expect(queue.counts().bytes).to.equal(1 + 2 + 'it failed'.length);
    await (await inbox.next()).settle(discard('€€'));
    expect(queue.counts()).to.include({ bytes: 0, dead: 1 });
    expect(letters.evicted).to.equal(0);
    const failed = { reason: '1', attempts: 1, permanent: false, history: [], failedAt: 1 };
    letters.add({ id: 'b', body: '', sequence: 1, acceptedAt: 1, ...failed });
    expect([letters.evicted, letters.size]).to.deep.equal([1, 1]);
  });
});
