import { expect } from 'chai';
import { complete, idsOf, messageOf, numbers, type QueueTests, release, retry, searchIn, sorted } from './stage.ts';

/** Conformance specs of `find`, `locate`, `read` and `counts`. */
export function describeFinding({ it }: QueueTests): void {
  describe('listing', () => {
    it('locates the messages of each state in order', async (queue) => {
      await queue.discard('x');
      await queue.publish('abcdefg');
      const [a, b, c] = await queue.takeAll(5);
      await queue.settle(a, retry(queue.now + 60));
      await queue.settle(b, retry(queue.now + 50));
      await queue.settle(c, complete());
      expect(await queue.located({ state: 'waiting' })).to.equal('fg');
      expect(await queue.located({ state: 'retrying' })).to.equal('ba');
      expect(sorted(await queue.located({ state: 'running' }))).to.equal('de');
      expect(await queue.located({ state: 'failed' })).to.equal('x');
      await queue.store.publish({ ...messageOf('h'), priority: 1 });
      await queue.store.publish({ ...messageOf('i'), runAt: queue.now + 70 });
      await queue.store.publish({ ...messageOf('j'), runAt: queue.now + 60 });
      expect(await queue.located({ state: 'scheduled' })).to.equal('ji');
      expect(await queue.located({ state: 'waiting' })).to.equal('hfg');
      queue.now += 50;
      expect(idsOf(await queue.takeAll(1))).to.equal('h');
      expect(await queue.located({ state: 'retrying' })).to.equal('a');
      expect(await queue.located({ state: 'waiting' })).to.equal('fgb');
      expect(await queue.located({ state: 'waiting' }, 1)).to.equal('f');
    });

    it('locates the first of many, with their sizes', async (queue) => {
      await queue.publishTogether(numbers(120));
      const found = await searchIn(queue.store, { state: 'waiting' }, 100);
      expect(found.map(({ id }) => id)).to.deep.equal(numbers(100));
      for (const { id, bytes } of found) expect(bytes).to.equal(Buffer.byteLength(messageOf(id).body));
    });

    it('reads messages in the order asked for, without those that are gone', async (queue) => {
      await queue.discard('d');
      await queue.publish('abc');
      await queue.settle(await queue.next(), complete());
      const read = await queue.store.read(['c', 'x', 'a', 'd', 'b', '__proto__']);
      expect(read.map(({ id, state }) => `${id} ${state}`)).to.deep.equal(['c waiting', 'd failed', 'b waiting']);
      expect(read[0]).to.deep.equal(await queue.message('c'));
      expect(await queue.store.read([])).to.deep.equal([]);
      for (const id of ['x', '', '__proto__', "'", '%']) expect(await queue.store.find(id)).to.equal(undefined);
    });

    it('cuts long bodies on request, and tells their size in bytes', async (queue) => {
      const { id, body, action } = messageOf('a', 'ü'.repeat(300), { text: '€'.repeat(3000) });
      await queue.store.publish({ id, body, action });
      const [cut] = await queue.store.read([id], 256);
      expect(cut).to.deep.include({ body: body.slice(0, 256), bodyBytes: Buffer.byteLength(body), action });
      expect((await queue.store.read([id]))[0]?.body).to.equal(body);
    });
  });

  describe('the history', () => {
    it('is what was saved last, also for the next process', async (queue) => {
      expect(await queue.store.readHistory(1)).to.equal(undefined);
      for (const text of ['{"a":1}', '{"ü":2}']) await queue.store.saveHistory(1, text);
      await queue.store.saveHistory(2, '{}');
      await queue.restart();
      expect(await queue.store.readHistory(1)).to.equal('{"ü":2}');
      expect(await queue.store.readHistory(2)).to.equal('{}');
    });
  });

  describe('counting', () => {
    it('knows when the longest waiting message became due', async (queue) => {
      const oldest = async () => (await queue.store.counts()).oldest;
      await queue.discard('x');
      await queue.store.publish({ ...messageOf('later'), runAt: queue.now + 60_000 });
      expect(await oldest()).to.equal(undefined);
      await queue.publish('a');
      queue.now += 10;
      await queue.store.publish({ ...messageOf('b'), priority: 1 });
      expect(await oldest()).to.equal(queue.now - 10);
      const [b, a] = await queue.takeAll(2);
      expect(await oldest()).to.equal(undefined);
      await queue.settle(b, retry(queue.now + 60_000));
      await queue.settle(a, release);
      expect(await oldest()).to.equal(queue.now - 10);
      await queue.cancel('a');
      await queue.redrive({ all: true });
      expect(await oldest()).to.equal(queue.now);
    });
  });
}
