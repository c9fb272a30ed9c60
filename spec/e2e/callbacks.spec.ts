import { expect } from 'chai';
import { post, request, startServices, untilTask } from '../support/program.ts';
import { isSignedBy, newSecret, Receiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const [OLD, NEW] = [newSecret(), newSecret()];

describe('a process with CALLBACK_HOSTS', () => {
  it('reports how each task ended, signed with both secrets', async () => {
    const receiver = new Receiver();
    await receiver.up();
    const env = { CALLBACK_HOSTS: receiver.host, CALLBACK_SECRET: `${NEW},${OLD}` };
    const services = await startServices({ env });
    const submit = async (task: object): Promise<string> =>
      (await post(`${services.tasks}/tasks`, { callback_url: receiver.url, ...task })).body.id;
    const done = await submit({ action: 'uppercase', data: { text: 'a' } });
    const failed = await submit({ action: 'uppercase', data: { text: 1 } });
    const cancelled = await submit({ action: 'sum', delay: 60 });
    await request(`${services.tasks}/tasks/${cancelled}`, { method: 'DELETE' });
    await until(() => receiver.received.length === 3);
    for (const callback of receiver.received) {
      for (const secret of [OLD, NEW]) expect(isSignedBy(secret, callback)).to.equal(true);
      expect(isSignedBy(newSecret(), callback)).to.equal(false);
    }
    const task = async (id: string) => (await request(`${services.tasks}/tasks/${id}`)).body;
    expect(receiver.of(done)[0]?.body).to.deep.equal(await task(done));
    expect(receiver.of(failed)[0]?.body).to.deep.equal(await task(failed));
    expect(receiver.of(cancelled)[0]?.body).to.deep.equal({ id: cancelled, action: 'sum', status: 'cancelled' });
    const id = String(receiver.of(done)[0]?.headers['webhook-id']);
    expect(await untilTask(services.tasks, id)).to.include({ result: '{"output":{"status":204,"answer":""}}' });
    const metrics = await request(`${services.admin}/metrics`);
    expect(metrics.body).to.include('tasks_callbacks_total{outcome="delivered"} 3');
  });
});
