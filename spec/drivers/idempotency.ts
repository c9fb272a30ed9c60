import { expect } from 'chai';
import { KeyInUse, KeyReused, type Queue, QueueFull } from '../../main/tasks/queue/queue.ts';
import { type FreshQueue, keyed, openInbox, publishAll } from './inbox.ts';

function publish(queue: Queue, id: string, key: string, fingerprint = 'x'): Promise<string | Error> {
  return queue.publish({ id, body: id }, keyed(key, fingerprint)).catch((error) => error);
}

/** Conformance specs of submissions with an idempotency key. */
export function describeIdempotency(fresh: FreshQueue): void {
  describe('submissions with a key', () => {
    it('are taken once, and stand for the first one, even after it is done', async () => {
      const queue = await fresh();
      expect(await publish(queue, 'a', 'key')).to.equal('a');
      expect(await publish(queue, 'b', 'key')).to.equal('a');
      expect(queue.counts()).to.include({ accepted: 1, waiting: 1 });
      await (await openInbox(queue).next()).ack();
      expect(await publish(queue, 'c', 'key')).to.equal('a');
      expect(queue.counts()).to.include({ accepted: 1, completed: 1, waiting: 0 });
      expect(await publish(queue, 'd', 'other key')).to.equal('d');
    });

    it('are refused when the key belongs to another one', async () => {
      const queue = await fresh();
      await publish(queue, 'a', 'key', 'x');
      expect(await publish(queue, 'b', 'key', 'y')).to.be.instanceOf(KeyReused);
      expect(queue.counts()).to.include({ accepted: 1, waiting: 1 });
    });

    it('are taken once when they come at the same time', async () => {
      const queue = await fresh();
      const answers = await Promise.all(['a', 'b', 'c'].map((id) => publish(queue, id, 'key')));
      const taken = new Set(answers.filter((answer) => typeof answer === 'string'));
      expect(taken.size).to.equal(1);
      expect(['a', 'b', 'c']).to.include.members([...taken]);
      for (const answer of answers) if (typeof answer !== 'string') expect(answer).to.be.instanceOf(KeyInUse);
      expect(queue.counts()).to.include({ accepted: 1, waiting: 1 });
    });

    it('may come again when they were refused', async () => {
      const queue = await fresh({ maxLength: 1 });
      await publishAll(queue, 'a');
      expect(await publish(queue, 'b', 'key')).to.be.instanceOf(QueueFull);
      await (await openInbox(queue).next()).ack();
      expect(await publish(queue, 'c', 'key')).to.equal('c');
    });

    it('are remembered up to the bound, the newest ones', async () => {
      const queue = await fresh({ maxKeys: 2 });
      for (const id of ['a', 'b', 'c']) await publish(queue, id, `key of ${id}`);
      expect(await publish(queue, 'x', 'key of c')).to.equal('c');
      expect(await publish(queue, 'y', 'key of b')).to.equal('b');
      expect(await publish(queue, 'z', 'key of a')).to.equal('z');
    });
  });
}
