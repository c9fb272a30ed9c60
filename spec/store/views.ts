import { expect } from 'chai';
import { ack, complete, discard, listIn, messageOf, purgeIn, type QueueTests, redriveIn, row } from './stage.ts';

/** Conformance specs of what decides who may see a task: its limit key and its submitter. */
export function describeViews({ it }: QueueTests): void {
  describe('limit key and submitter', () => {
    const limitKey = 'ü\0"acme"';
    const owner = { limitKey, submitter: 'alice' };
    const owned = (id: string) => ({ ...messageOf(id), ...owner });

    it('stay with a task until its row is written, and select rows', async (queue) => {
      const { store } = queue;
      await queue.publish('x');
      for (const id of 'abc') await store.publish(owned(id));
      const deliveries = await queue.takeAll(4);
      for (const delivery of deliveries) expect(delivery).to.include(delivery.id === 'x' ? {} : owner);
      expect(await queue.message('a')).to.include(owner);
      for (const delivery of deliveries.filter(({ id }) => id !== 'b')) await queue.settle(delivery, complete());
      const early = deliveries.filter(({ id }) => id === 'b');
      for (const delivery of early) await queue.settle(delivery, ack);
      for (const delivery of early) await queue.settle(delivery, row(1));
      const inView = async (view: object) =>
        (await listIn(store.rows, { view, status: 'completed' })).map(({ id }) => id).sort();
      expect(await inView({ limit_key: limitKey })).to.deep.equal(['a', 'b', 'c']);
      expect(await inView({ submitter: 'alice' })).to.deep.equal(['a', 'b', 'c']);
      expect(await inView({ id: 'a' })).to.deep.equal(['a']);
      for (const view of [{ limit_key: 'acme' }, { submitter: 'bob' }, { id: 'y' }])
        expect(await inView(view)).to.deep.equal([]);
      const before = await store.rows.position('c');
      const older = await listIn(store.rows, { view: { submitter: 'alice' }, before });
      expect(older.map(({ id }) => id)).to.deep.equal(['b', 'a']);
      const [named, plain] = [await store.find('a'), await store.find('x')];
      expect(named).to.have.property('row').that.includes({ limit_key: 'ü\\u0000\\"acme\\"', submitter: 'alice' });
      expect(plain).to.have.property('row').that.includes({ limit_key: null, submitter: null });
    });

    it('are told of a task that is cancelled, redriven, purged or made due', async (queue) => {
      const { store } = queue;
      for (const id of 'abc') await store.publish(owned(id));
      expect(await store.cancel('a')).to.deep.equal({ outcome: 'cancelled', action: 'sum', ...owner });
      await queue.settleAll(await queue.takeAll(2), discard());
      const subject = (id: string) => ({ id, action: 'sum', ...owner });
      const redriven: object[] = [];
      await redriveIn(store, { ids: ['b'] }, (tasks) => redriven.push(...tasks));
      expect(redriven).to.deep.equal([subject('b')]);
      expect((await purgeIn(store, { all: true })).done).to.deep.equal([subject('c')]);
      await store.publish({ ...owned('d'), runAt: queue.now + 1000 });
      const due: object[] = [];
      await store.runNow('d', (task) => due.push(task));
      expect(due).to.deep.equal([subject('d')]);
    });
  });
}
