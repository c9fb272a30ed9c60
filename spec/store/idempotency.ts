import { expect } from 'chai';
import { KEY_LIFETIME_MS, KeyReused, QueueFull } from '../../db/task-store.ts';
import { complete, HOUR, messageOf, type QueueTests } from './stage.ts';

/** Conformance specs of submissions with an idempotency key. */
export function describeIdempotency({ it, itWith }: QueueTests): void {
  describe('submissions with a key', () => {
    it('are accepted once, and stand for the first one, even after it is done', async (queue) => {
      const publish = (id: string) => queue.store.publish(messageOf(id), { key: 'key', fingerprint: 'x' });
      expect(await publish('a')).to.deep.equal({ id: 'a', isNew: true });
      expect(await publish('b')).to.deep.equal({ id: 'a', isNew: false });
      await queue.expectCounts({ accepted: 1, waiting: 1 });
      await queue.settle(await queue.next(), complete());
      expect(await publish('c')).to.deep.equal({ id: 'a', isNew: false });
      expect(await queue.publishKeyed('d', 'Key')).to.equal('d');
      await queue.expectCounts({ accepted: 2, completed: 1, waiting: 1 });
    });

    it('are refused when the key belongs to another one', async (queue) => {
      await queue.publishKeyed('a', 'key', 'x');
      expect(await queue.unchanged(() => queue.publishKeyed('b', 'key', 'y'))).to.be.instanceOf(KeyReused);
    });

    it('are accepted once when they come at the same time', async (queue) => {
      const equal = [...'abc'].map((id) => queue.publishKeyed(id, 'key'));
      const different = [...'xyz'].map((id) => queue.publishKeyed(id, 'another', id));
      const others = [...'de'].map((id) => queue.publishKeyed(id, `key of ${id}`));
      const answers = await Promise.all(equal);
      expect(new Set(answers).size).to.equal(1);
      expect(answers[0]).to.be.oneOf([...'abc']);
      const refused = (await Promise.all(different)).filter((answer) => answer instanceof KeyReused);
      expect(refused).to.have.length(2);
      expect(await Promise.all(others)).to.deep.equal(['d', 'e']);
      await queue.expectCounts({ accepted: 4, waiting: 4 });
    });

    itWith(
      { maxLength: 1 },
      'may come again when they were refused, and are answered while the queue is full',
      async (queue) => {
        await queue.publish('a');
        const refused = await Promise.all([...'bc'].map((id) => queue.publishKeyed(id, 'key', id)));
        for (const answer of refused) expect(answer).to.be.instanceOf(QueueFull);
        await queue.settle(await queue.next(), complete());
        expect(await queue.publishKeyed('d', 'key')).to.equal('d');
        expect(await queue.publishKeyed('e', 'key')).to.equal('d');
      },
    );

    it('are remembered for a day', async (queue) => {
      expect(KEY_LIFETIME_MS).to.equal(24 * HOUR);
      await queue.publishKeyed('a', 'key', 'x');
      queue.now += KEY_LIFETIME_MS - 1;
      expect(await queue.publishKeyed('b', 'key', 'x')).to.equal('a');
      queue.now += 1;
      expect(await queue.publishKeyed('c', 'key', 'y')).to.equal('c');
      expect(await queue.publishKeyed('d', 'key', 'y')).to.equal('c');
    });

    for (const step of [1, 0, -HOUR]) {
      itWith(
        { maxKeys: 2 },
        `are remembered up to the maximum number, the newest ones, if the clock moves by ${step} ms`,
        async (queue) => {
          for (const id of 'abc') {
            queue.now += step;
            await queue.publishKeyed(id, `key of ${id}`);
          }
          expect(await queue.publishKeyed('x', 'key of c')).to.equal('c');
          expect(await queue.publishKeyed('y', 'key of b')).to.equal('b');
          expect(await queue.publishKeyed('z', 'key of a')).to.equal('z');
          expect(await queue.publishKeyed('w', 'key of c')).to.equal('c');
        },
      );
    }

    it('are remembered after a restart, up to the bound that then holds', async (queue) => {
      for (const id of 'abc') await queue.publishKeyed(id, `key of ${id}`);
      await queue.restart();
      for (const id of 'abc') expect(await queue.publishKeyed('x', `key of ${id}`)).to.equal(id);
      expect(await queue.publishKeyed('x', 'key of a', 'y')).to.be.instanceOf(KeyReused);
      expect(await queue.takeIds(5)).to.equal('abc');
      await queue.restart({ maxKeys: 1 });
      expect(await queue.publishKeyed('d', 'key of d')).to.equal('d');
      expect(await queue.publishKeyed('e', 'key of a')).to.equal('e');
    });
  });
}
