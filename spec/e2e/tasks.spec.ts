import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

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
});
