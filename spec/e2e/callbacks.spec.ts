import { writeFile } from 'node:fs/promises';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices, untilAnswer, untilTask } from '../support/program.ts';
import { isSignedBy, newSecret, Receiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const [OLD, NEW] = [newSecret(), newSecret()];

/** Starts services with a receiver of their callbacks. */
async function start(env: Record<string, string> = {}) {
  const receiver = new Receiver();
  await receiver.up();
  const settings = { CALLBACK_HOSTS: `${receiver.host},localhost`, CALLBACK_SECRET: NEW, ...env };
  const services = await startServices({ env: settings });
  const submit = async (task: object): Promise<string> =>
    (await post(`${services.tasks}/tasks`, { callback_url: receiver.url, ...task })).body.id;
  /** Waits until the only callback waits for its next attempt. */
  const retrying = async (): Promise<{ id: string }> =>
    (await untilAnswer(`${services.tasks}/queue/tasks?state=retrying`, ({ body }) => body.count === 1)).body.tasks[0];
  return { receiver, services, submit, retrying, settings };
}

describe('a process with CALLBACK_HOSTS', () => {
  const started = onceForSuite(() => start({ CALLBACK_SECRET: `${NEW},${OLD}`, TASK_PREFETCH: '1' }));

  it('reports how each task ended, signed with both secrets', async () => {
    const { receiver, services, submit } = started();
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

  it('delivers to a receiver that was down, and runs other tasks meanwhile', async () => {
    const { receiver, services, submit, retrying } = started();
    await receiver.down();
    const id = await submit({ action: 'sum' });
    const callback = await retrying();
    await untilTask(services.tasks, (await post(`${services.tasks}/tasks`, { action: 'sum' })).body.id);
    await receiver.up();
    await request(`${services.tasks}/tasks/${callback.id}/run`, { method: 'POST' });
    await until(() => receiver.of(id).length === 1);
    expect(receiver.of(id)[0]?.headers['webhook-id']).to.equal(callback.id);
  });

  it('delivers after kill -9 what ended before', async () => {
    const [DATA_DIR, QUEUE_DRIVER] = [await temporaryFolder(), 'sqlite'];
    const { receiver, services, submit, retrying, settings } = await start({ DATA_DIR, QUEUE_DRIVER });
    await receiver.down();
    const id = await submit({ action: 'sum' });
    await retrying();
    await services.end('SIGKILL');
    await receiver.up();
    await startServices({ env: settings });
    await until(() => receiver.of(id).length === 1);
    expect(receiver.of(id)[0]?.body).to.include({ id, status: 'completed' });
  });

  it('takes the URL of an action from the handlers module, and a restart without the host ends its callbacks', async () => {
    const TASK_HANDLERS = await writeHandlers('');
    const receiver = new Receiver();
    await receiver.up();
    await writeFile(TASK_HANDLERS, `export default { own: { handler() {}, callback: '${receiver.url}' } };`);
    const DATA_DIR = await temporaryFolder();
    const env = {
      CALLBACK_HOSTS: receiver.host,
      CALLBACK_SECRET: NEW,
      TASK_HANDLERS,
      DATA_DIR,
      QUEUE_DRIVER: 'sqlite',
    };
    const first = await startServices({ env });
    const { id } = (await post(`${first.tasks}/tasks`, { action: 'own' })).body;
    await until(() => receiver.of(id).length === 1);
    await receiver.down();
    await post(`${first.tasks}/tasks`, { action: 'own' });
    await untilAnswer(`${first.tasks}/queue/tasks?state=retrying`, ({ body }) => body.count === 1);
    await first.end();
    await writeFile(TASK_HANDLERS, 'export default { own() {} };');
    const second = await startServices({ env: { TASK_HANDLERS, DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const letters = await untilAnswer(`${second.tasks}/dead-letters`, ({ body }) => body.count === 1);
    expect(letters.body.dead_letters[0]).to.include({
      permanent: true,
      reason: `callback_url: the host ${receiver.host} is not in CALLBACK_HOSTS`,
    });
    expect((await request(`${second.tasks}/limits`)).body.limits).to.deep.equal([]);
  });
});
