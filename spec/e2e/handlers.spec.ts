import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices, untilTask } from '../support/program.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

/** Waits until a task is completed or failed. */
const ended = ({ tasks }: RunningServices, id: string) => untilTask(tasks, id, 'completed', 'failed');

describe('a process with a handlers module', () => {
  it('runs its handlers, and tells of them', async () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    const TASK_HANDLERS = await writeHandlers(`export default {
      double: { handler: ({ n }, { log }) => { log.info('doubling'); return n * 2; }, schema: ${JSON.stringify(schema)} },
      uppercase: () => 'own',
      busy: { handler() { throw new RetryAfter(20, 'busy'); }, maxAttempts: 2 },
    }`);
    const services = await startServices({ env: { TASK_HANDLERS, TASK_UNKNOWN_ACTIONS: 'reject' } });
    const { tasks, admin, logged } = services;
    const submit = (action: string, data: object = {}) => post(`${tasks}/tasks`, { action, data });
    const { id } = (await submit('double', { n: 21 })).body;
    expect((await ended(services, id)).result).to.equal('{"output":42}');
    expect(await logged(({ msg }) => msg === 'doubling')).to.include({ task: id, action: 'double' });
    expect((await ended(services, (await submit('uppercase')).body.id)).result).to.equal('{"output":"own"}');
    expect(await ended(services, (await submit('busy')).body.id)).to.include({ attempts: 2, reason: 'busy' });
    expect((await submit('double')).body).to.deep.equal({
      error: 'invalid data',
      path: '/n',
      detail: 'must be present',
    });
    expect((await submit('other')).body).to.deep.equal({ error: 'unknown action' });
    const actions = [{ name: 'uppercase' }, { name: 'sum' }, { name: 'double', schema }, { name: 'busy' }];
    expect((await request(`${tasks}/actions`)).body).to.deep.equal({ actions, unknown_actions: 'reject' });
    const { components } = (await request(`${admin}/openapi.json`)).body;
    expect(components.schemas.Submission.anyOf[0].properties.action).to.deep.equal({ const: 'double' });
  });

  it('is ready, completes all other tasks and serves its clients while handlers do everything that they should not', async () => {
    const bad: Record<string, string> = {
      hang: 'return new Promise(() => {})',
      block: 'for (;;);',
      exit: 'process.exit(0)',
      null: 'throw null',
      getter: "throw Object.defineProperty(new Error(), 'message', { get() { throw null; } })",
      circular: 'const a = {}; a.a = a; return a',
      progress: "for (let step = 0; step < 1e4; step++) task.progress(step, 'x'.repeat(1e5))",
      log: "for (let line = 0; line < 1e4; line++) console.log('x'.repeat(1e5))",
      timer: 'setInterval(() => { throw new Error(); }, 1)',
      reject: 'setImmediate(() => Promise.reject(null))',
      memory: 'for (const meals = []; ; ) meals.push(new Array(10_000).fill({}))',
    };
    const handlers = Object.entries(bad).map(([name, code]) => `${name}(data, task) { ${code}; }`);
    const TASK_HANDLERS = await writeHandlers(`export default { ${handlers.join(', ')} }`);
    const limits = { TASK_TIMEOUT_MS: '300', TASK_CANCEL_GRACE_MS: '10', TASK_MEMORY_MB: '32', TASK_PREFETCH: '50' };
    const services = await startServices({ env: { TASK_HANDLERS, ...limits } });
    const { tasks, admin, child } = services;
    await eventually(
      () => request(`${admin}/readyz`),
      ({ status }) => status === 200,
    );
    const client = await watchSteadily(services);
    const good: string[] = [];
    for (const action of Object.keys(bad)) {
      await post(`${tasks}/tasks`, { action });
      for (const text of 'abc')
        good.push((await post(`${tasks}/tasks`, { action: 'uppercase', data: { text } })).body.id);
      expect((await request(`${admin}/readyz`)).status).to.equal(200);
    }
    for (const id of good) expect(await ended(services, id)).to.include({ status: 'completed' });
    expect(child.exitCode).to.equal(null);
    await client.checkAfterNextTick();
    await queueCounts(tasks);
  });

  for (const QUEUE_DRIVER of ['memory', 'sqlite']) {
    it(`aborts the signals of running handlers when it stops, and keeps their tasks: ${QUEUE_DRIVER}`, async () => {
      const TASK_HANDLERS = await writeHandlers(`export default {
        wait: (_, { signal, log }) => new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          log.info('waiting');
        }),
        other: () => 'done',
      }`);
      // The memory queue is drained until the grace period begins, here at once.
      const times = { SHUTDOWN_TIMEOUT_MS: '60000', TASK_CANCEL_GRACE_MS: '60000' };
      const env = { TASK_HANDLERS, QUEUE_DRIVER, DATA_DIR: await temporaryFolder(), ...times };
      const first = await startServices({ env });
      const { id } = (await post(`${first.tasks}/tasks`, { action: 'wait' })).body;
      await first.logged(({ msg }) => msg === 'waiting');
      first.child.kill('SIGTERM');
      expect((await first.exited).code).to.equal(0);
      expect(await first.logged(({ msg }) => msg === 'stopped')).to.include({ unfinished: 1 });
      const second = await startServices({ env });
      await second.logged(({ msg, task }) => msg === 'waiting' && task === id);
      expect((await request(`${second.tasks}/tasks/${id}`)).body).to.include({ status: 'running', attempt: 1 });
    });
  }
});
