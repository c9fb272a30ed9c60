import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices, untilAnswer, untilTask } from '../support/program.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { followEvents } from '../tasks/http/event-client.ts';

/** Waits until a task is completed or failed. */
const ended = ({ tasks }: RunningServices, id: string) => untilTask(tasks, id, 'completed', 'failed');
const find = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`);
const cancel = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`, { method: 'DELETE' });
const submit = async ({ tasks }: RunningServices, action: string, data: object = {}): Promise<string> =>
  (await post(`${tasks}/tasks`, { action, data })).body.id;

describe('a process with a handlers module', () => {
  const schema = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
  const started = onceForSuite(async () => {
    const TASK_HANDLERS = await writeHandlers(`export default {
      double: { handler: ({ n }, { log }) => { log.info('doubling'); return n * 2; }, schema: ${JSON.stringify(schema)} },
      uppercase: () => 'own',
      busy: { handler() { throw new RetryAfter(20, 'busy'); }, maxAttempts: 2 },
      heed: (_, { signal, progress }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        progress(0.5, 'half');
      }),
      block(_, { progress }) { progress(0.25); for (;;); },
    }`);
    const settings = { TASK_UNKNOWN_ACTIONS: 'reject', TASK_CANCEL_GRACE_MS: '50', TASK_CONCURRENCY: '1' };
    return startServices({ env: { TASK_HANDLERS, ...settings } });
  });

  it('runs its handlers, refuses other data and actions, and describes its actions', async () => {
    const services = started();
    const { tasks, admin, logged } = services;
    const id = await submit(services, 'double', { n: 21 });
    expect((await ended(services, id)).result).to.equal('{"output":42}');
    expect(await logged(({ msg }) => msg === 'doubling')).to.include({ task: id, action: 'double' });
    expect((await ended(services, await submit(services, 'uppercase'))).result).to.equal('{"output":"own"}');
    expect(await ended(services, await submit(services, 'busy'))).to.include({ attempts: 2, reason: 'busy' });
    const invalid = { error: 'invalid data', path: '/n', detail: 'must be present' };
    expect((await post(`${tasks}/tasks`, { action: 'double' })).body).to.deep.equal(invalid);
    expect((await post(`${tasks}/tasks`, { action: 'other' })).body).to.deep.equal({ error: 'unknown action' });
    const names = ['busy', 'heed', 'block'].map((name) => ({ name }));
    const actions = [{ name: 'uppercase' }, { name: 'sum' }, { name: 'double', schema }, ...names];
    expect((await request(`${tasks}/actions`)).body).to.deep.equal({ actions, unknown_actions: 'reject' });
    const { components } = (await request(`${admin}/openapi.json`)).body;
    expect(components.schemas.Submission.anyOf[0].properties.action).to.deep.equal({ const: 'double' });
  });

  it('ends a cancelled task by its signal, or else with its thread, and shows its progress until then', async () => {
    const services = started();
    const events = await followEvents(services.tasks);
    const before = await queueCounts(services.tasks);
    for (const [action, progress] of [
      ['heed', { fraction: 0.5, note: 'half' }],
      ['block', { fraction: 0.25 }],
    ] as const) {
      const id = await submit(services, action);
      const { body } = await untilAnswer(
        `${services.tasks}/tasks/${id}`,
        (answer) => answer.body.progress !== undefined,
      );
      expect(body).to.deep.include({ id, status: 'running', attempt: 1, progress });
      const next = await submit(services, 'uppercase');
      expect(await cancel(services, id)).to.deep.include({ status: 202, body: { id, status: 'cancelling' } });
      await untilAnswer(`${services.tasks}/tasks/${id}`, ({ status }) => status === 404);
      await untilTask(services.tasks, next);
      const names: string[] = [];
      while (names.at(-1) !== 'cancelled') {
        const event = await events.next();
        if (event?.data.id === id) names.push(event.event);
      }
      expect(names).to.deep.equal(['accepted', 'started', 'progress', 'cancelled']);
    }
    const counts = await queueCounts(services.tasks);
    expect([counts.cancelled - before.cancelled, counts.dead - before.dead]).to.deep.equal([2, 0]);
    expect((await request(`${services.admin}/metrics`)).body).to.include(
      `\ntasks_cancelled_total ${counts.cancelled}\n`,
    );
  });
});

describe('a handler that fails in an imported file', () => {
  it('shows the file, line and column in the log, in the history of its attempts and in the dead letter', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'lib.ts'), 'export function parse(text: string) {\n  return JSON.parse(text);\n}\n');
    const source = `import { parse } from ${JSON.stringify(join(folder, 'lib.ts'))};
      export default {
        read: { maxAttempts: 2, backoff: { firstMs: 1 }, handler({ text }) {
          try { return parse(text); } catch (cause) { throw new Error('unreadable', { cause }); }
        } },
      };`;
    const services = await startServices({ env: { TASK_HANDLERS: await writeHandlers(source) } });
    const id = await submit(services, 'read', { text: '{' });
    const { history } = await ended(services, id);
    const place =
      /^Error\n {4}at .*\/handlers\.ts:5:\d+\)\ncaused by SyntaxError: .*\n {4}at parse \(\/.*\/lib\.ts:2:15\)\n {4}at /;
    for (const attempt of history as { stack: string }[]) expect(attempt.stack).to.match(place);
    const [letter] = (await request(`${services.tasks}/dead-letters`)).body.dead_letters;
    expect(letter.history).to.deep.equal(history);
    const line = await services.logged(({ msg, decision }) => msg === 'task failed' && decision === 'discard');
    expect(line).to.deep.include({ task: id, action: 'read', stack: history[1].stack });
  });
});

describe('a process', () => {
  it('stays ready, completes other tasks and serves its clients while handlers fail in every way', async () => {
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
    const isReady = async () => (await request(`${services.admin}/readyz`)).status === 200;
    await eventually(isReady, Boolean);
    const client = await watchSteadily(services);
    const good: string[] = [];
    for (const action of Object.keys(bad)) {
      await submit(services, action);
      for (const text of 'abc') good.push(await submit(services, 'uppercase', { text }));
      expect(await isReady(), action).to.equal(true);
    }
    for (const id of good) expect(await ended(services, id)).to.include({ status: 'completed' });
    expect(services.child.exitCode).to.equal(null);
    await client.checkAfterNextTick();
    await queueCounts(services.tasks);
  });

  for (const QUEUE_DRIVER of ['memory', 'sqlite']) {
    it(`aborts the signals of running handlers when it stops, and runs their tasks after a restart: ${QUEUE_DRIVER}`, async () => {
      const TASK_HANDLERS = await writeHandlers(`export default {
        wait: (_, { signal, log }) => new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason));
          log.info('waiting');
        }),
      }`);
      // The memory queue is drained until the grace period begins, here at once.
      const times = { SHUTDOWN_TIMEOUT_MS: '60000', TASK_CANCEL_GRACE_MS: '60000' };
      const env = { TASK_HANDLERS, QUEUE_DRIVER, DATA_DIR: await temporaryFolder(), ...times };
      const first = await startServices({ env });
      const id = await submit(first, 'wait');
      await first.logged(({ msg }) => msg === 'waiting');
      expect((await first.end()).code).to.equal(0);
      expect(first.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 1 });
      const second = await startServices({ env });
      await second.logged(({ msg, task }) => msg === 'waiting' && task === id);
      expect((await find(second, id)).body).to.include({ status: 'running', attempt: 1 });
    });
  }

  it('loses no confirmed cancellation when it is killed', async () => {
    const handlers = (wait: string) =>
      writeHandlers(`export default { wait: ${wait}, later() { throw new RetryAfter(60_000); } }`);
    const env = { QUEUE_DRIVER: 'sqlite', DATA_DIR: await temporaryFolder(), TASK_CONCURRENCY: '1' };
    const first = await startServices({
      env: { ...env, TASK_HANDLERS: await handlers('() => new Promise(() => {})') },
    });
    const later = await submit(first, 'later');
    await untilTask(first.tasks, later, 'retrying');
    const running = await submit(first, 'wait');
    await untilTask(first.tasks, running, 'running');
    const waiting: string[] = [];
    for (let count = 0; count < 20; count++) waiting.push(await submit(first, 'uppercase'));
    const [kept, ...rest] = waiting as [string, ...string[]];
    const cancelled = [later, ...rest];
    for (const id of cancelled) expect((await cancel(first, id)).status).to.equal(204);
    await first.end('SIGKILL');

    const second = await startServices({ env: { ...env, TASK_HANDLERS: await handlers(`() => 'done'`) } });
    for (const id of [running, kept]) await untilTask(second.tasks, id);
    for (const id of cancelled) expect((await find(second, id)).status).to.equal(404);
    expect(await queueCounts(second.tasks)).to.include({ accepted: 2, completed: 2, waiting: 0, delayed: 0 });
  });
});
