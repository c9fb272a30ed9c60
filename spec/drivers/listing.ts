import { expect } from 'chai';
import type { ListedState, ListedTask, Queue } from '../../main/tasks/queue/queue.ts';
import { eventually } from '../support/until.ts';
import { type FreshQueue, openInbox, retry } from './inbox.ts';

const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Returns the message of a numbered task. */
export function numbered(number: number, action = 'sum', text = '') {
  const id = idOf(number);
  return { id, body: JSON.stringify({ id, action, data: { text }, created_at: 1 }) };
}

/** Returns a listing once it has these tasks, because a listing of several nodes may be a second old. */
export async function listed(queue: Queue, state: ListedState, ...numbers: number[]): Promise<ListedTask[]> {
  const expected = numbers.map(idOf).join();
  const look = async () => (await queue.listTasks(state, async () => {})).tasks;
  return eventually(look, (tasks) => tasks.map(({ id }) => id).join() === expected);
}

/** Conformance specs of `listTasks`. */
export function describeListing(fresh: FreshQueue): void {
  describe('listing messages', () => {
    it('returns those of a state with what is known of them, in order', async () => {
      const queue = await fresh();
      const before = Date.now();
      for (const number of [1, 2, 3, 4]) await queue.publish(numbered(number));
      const waiting = await listed(queue, 'queued', 1, 2, 3, 4);
      for (const task of waiting) expect(task.acceptedAt).to.be.within(before, Date.now());
      const { id, body } = numbered(1);
      const { acceptedAt, ...rest } = waiting[0] as ListedTask;
      const first = { id, action: 'sum', payload: body, payloadBytes: body.length, progress: { state: 'queued' } };
      expect(rest).to.deep.equal(first);

      const [one, two] = await openInbox(queue).take(2);
      await two?.markRunning();
      const [running, unstarted] = await listed(queue, 'running', 2, 1);
      expect(running?.progress).to.deep.include({ state: 'running', attempt: 1 });
      expect(running?.progress).to.have.property('startedAt').that.is.within(before, Date.now());
      expect(running?.payload).to.equal(numbered(2).body);
      expect(unstarted?.progress).to.deep.equal({ state: 'queued' });
      await listed(queue, 'queued', 3, 4);

      await one?.settle(retry(60_000));
      await two?.settle({ ...retry(50_000), reason: 'no' });
      const [next] = await listed(queue, 'retrying', 2, 1);
      expect(next?.progress).to.deep.include({ state: 'retrying', attempts: 1, reason: 'no' });
      expect(next?.progress)
        .to.have.property('dueAt')
        .that.is.within(before + 50_000, Date.now() + 50_000);
      expect(next).to.include({ action: 'sum', payload: numbered(2).body });
      await listed(queue, 'running');
      expect((await queue.listTasks('retrying', async () => {})).total).to.equal(2);
    });

    it('cuts a long message, and tells its size in bytes', async () => {
      const queue = await fresh();
      const { id, body } = numbered(1, 'ü'.repeat(300), '€'.repeat(3000));
      await queue.publish({ id, body });
      const [task] = await listed(queue, 'queued', 1);
      const payloadBytes = Buffer.byteLength(body);
      expect(task).to.deep.include({ action: 'ü'.repeat(256), payload: body.slice(0, 256), payloadBytes });
    });

    it('returns the first 100 of more, and the number of all', async () => {
      const queue = await fresh();
      for (let number = 0; number < 120; number++) await queue.publish(numbered(number));
      const admitted: number[] = [];
      const { tasks, total } = await queue.listTasks('queued', async (bytes) => void admitted.push(bytes));
      expect(tasks.map(({ id }) => id)).to.deep.equal(Array.from({ length: 100 }, (_, number) => idOf(number)));
      expect(total).to.equal(120);
      expect(admitted).to.deep.equal(tasks.map(({ payload }) => payload.length));
    });
  });

  describe('finding and listing', () => {
    it('know when a message was accepted, when its attempt started, and its body', async () => {
      const queue = await fresh();
      const before = Date.now();
      const { id, body } = numbered(1);
      await queue.publish({ id, body });
      expect(await queue.find(id)).to.deep.include({ state: 'queued', body });
      const delivery = await openInbox(queue).next();
      await delivery.markRunning();
      const running = await queue.find(id);
      expect(running).to.deep.include({ state: 'running', attempt: 1, body });
      for (const time of ['acceptedAt', 'startedAt'])
        expect(running).to.have.property(time).that.is.within(before, Date.now());
      await delivery.settle(retry(60_000));
      expect(await queue.find(id)).to.deep.include({ state: 'retrying', body });
    });
  });
}
