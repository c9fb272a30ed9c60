import { expect } from 'chai';
import { KeyReused, type Published, QueueFull, type Submission } from '../../db/task-store.ts';
import { complete, errorOf, idsOf, messageOf, numbers, type QueueTests, START, type TestQueue } from './stage.ts';

const submission = (id: string, key?: string, fingerprint = 'x'): Submission => {
  return { message: messageOf(id), key: key === undefined ? undefined : { key, fingerprint } };
};

/** Publishes a batch. Returns each answer as text, and the ids that were reported as accepted. */
async function publishAll({ store }: TestQueue, submissions: Submission[]) {
  let accepted = '';
  const results = await store.publishAll(submissions, (messages) => {
    accepted += idsOf(messages);
  });
  const texts = results.map((each) => {
    return each instanceof KeyReused ? 'reused' : `${(each as Published).id}${(each as Published).isNew ? ' new' : ''}`;
  });
  return [...texts, accepted];
}

/** Conformance specs of `publishAll`. */
export function describeBatches({ it, itWith }: QueueTests): void {
  describe('a batch', () => {
    it('is accepted as a whole, in its order', async (queue) => {
      await queue.publish('a');
      expect(await publishAll(queue, [submission('c'), submission('b'), submission('d')])).to.deep.equal([
        ...['c new', 'b new', 'd new'],
        'cbd',
      ]);
      expect(await queue.takeIds(5)).to.equal('acbd');
      await queue.expectCounts({ accepted: 4, inFlight: 4 });
    });

    it('of a thousand is accepted beside other submissions, with schedules and priorities', async (queue) => {
      const many = numbers(1000).map((id) => submission(id));
      many[999] = { message: { ...messageOf('first'), priority: 1 }, key: undefined };
      many[998] = { message: { ...messageOf('later'), runAt: START + 5 }, key: undefined };
      await Promise.all([queue.publish('a'), queue.store.publishAll(many), queue.publish('b')]);
      await queue.expectCounts({ accepted: 1002, waiting: 1001, scheduled: 1 });
      expect((await queue.takeAll(1)).map(({ id }) => id)).to.deep.equal(['first']);
      queue.now += 5;
      expect((await queue.takeAll(1001)).map(({ id }) => id)).to.include('later');
    });

    itWith({ maxLength: 3 }, 'that does not fit is refused as a whole, and the next one is accepted', async (queue) => {
      await queue.publish('a');
      const refused = [submission('b'), submission('c', 'key'), submission('d')];
      await queue.unchanged(async () => {
        expect(await errorOf(() => queue.store.publishAll(refused))).to.be.instanceOf(QueueFull);
      });
      expect(await publishAll(queue, refused.slice(0, 2))).to.deep.equal(['b new', 'c new', 'bc']);
      expect(await publishAll(queue, [submission('x', 'key')])).to.deep.equal(['c', '']);
    });

    it('is accepted once for each key, also if a key occurs twice', async (queue) => {
      const batch = () => [submission('a', 'one'), submission('b', 'two'), submission('c', 'one'), submission('d')];
      expect(await publishAll(queue, batch())).to.deep.equal(['a new', 'b new', 'a', 'd new', 'abd']);
      await queue.settle(await queue.next(), complete());
      expect(await publishAll(queue, batch().slice(0, 3))).to.deep.equal(['a', 'b', 'a', '']);
      await queue.expectCounts({ accepted: 3, completed: 1, waiting: 2 });
    });

    it('with keys of other submissions is refused as a whole, and says which', async (queue) => {
      await publishAll(queue, [submission('a', 'one')]);
      const wrong = [submission('b'), submission('c', 'one', 'y'), submission('d', 'two'), submission('e', 'two', 'y')];
      await queue.unchanged(async () => {
        const answers = await publishAll(queue, wrong);
        expect(answers.map((answer) => answer === 'reused')).to.deep.equal([false, true, false, true, false]);
        expect(answers.at(-1)).to.equal('');
      });
      expect(await publishAll(queue, [submission('f', 'two', 'y')])).to.deep.equal(['f new', 'f']);
    });
  });
}
