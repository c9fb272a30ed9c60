import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { untilIdle } from '../support/ledger.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

interface Row {
  id: string;
  created_at: number;
}

describe('service B in a process of its own', () => {
  const services = onceForSuite(() => startServices());

  it('answers a submission with 202, and lists the row of the task once it is completed', async () => {
    const { tasks } = services();
    const before = Math.floor(Date.now() / 1000);
    const { status, body } = await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'straße' } });
    expect(status).to.equal(202);
    expect(body).to.deep.equal({ id: body.id, status: 'queued' });
    expect(body.id).to.match(UUID_V4);
    const { attempts, waited_ms, ran_ms, history, ...row } = await untilTask(tasks, body.id);
    expect(row).to.have.all.keys('id', 'payload', 'status', 'result', 'created_at', 'processed_at');
    expect(row).to.include({ id: body.id, status: 'completed', result: '{"output":"STRASSE"}' });
    // A node of several adds its id.
    const [{ started_at_ms, ended_at_ms, node: _node, ...attempt }] = history;
    expect(attempt).to.deep.equal({ reason: null });
    expect([attempts, ran_ms]).to.deep.equal([1, ended_at_ms - started_at_ms]);
    expect(started_at_ms - waited_ms).to.be.within(before * 1000, started_at_ms);
    const { created_at } = row;
    const message = { id: body.id, action: 'uppercase', data: { text: 'straße' }, created_at };
    expect(JSON.parse(row.payload)).to.deep.equal(message);
    expect(row.created_at).to.be.within(before, Date.now() / 1000 + 1);
    expect(row.processed_at).to.be.within(row.created_at, Date.now() / 1000 + 1);
    expect((await request(`${tasks}/tasks`)).body).to.deep.equal({ tasks: [row], count: 1 });
  });

  it('completes 600 tasks, and lists the newest 100, the last submission first', async () => {
    const { tasks } = services();
    const queueState = async () => (await request(`${tasks}/queue`)).body;
    const before = await queueState();
    const submit = async (count: number) => {
      const ids: string[] = [];
      for (let i = 0; i < count; i++) {
        const { status, body } = await post(`${tasks}/tasks`, { action: 'sum' });
        expect(status).to.equal(202);
        ids.unshift(body.id);
      }
      return ids;
    };
    await Promise.all(Array.from({ length: 20 }, () => submit(25)));
    const newest = await submit(100);
    await untilIdle(tasks);
    const queue = await queueState();
    expect([queue.accepted - before.accepted, queue.completed - before.completed]).to.deep.equal([600, 600]);
    expect(queue).to.include({ dead: before.dead, dropped: 0 });
    for (const { p50, p95, p99 } of [queue.latency.waiting, queue.latency.running]) {
      expect(p50).to.be.above(0);
      expect([p50, p95, p99]).to.deep.equal([p50, p95, p99].sort((a, b) => a - b));
    }
    const { body } = await request(`${tasks}/tasks`);
    expect(body.count).to.equal(100);
    expect(body.tasks.map(({ id }: Row) => id)).to.deep.equal(newest);
    expect((await request(`${tasks}/tasks?status=pending`)).body).to.deep.equal({ tasks: [], count: 0 });
  });
});
