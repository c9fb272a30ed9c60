import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices, untilAnswer, untilTask } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { followEvents } from '../tasks/http/event-client.ts';

/** Waits until a task is completed or failed. */
const ended = ({ tasks }: RunningServices, id: string) => untilTask(tasks, id, 'completed', 'failed');
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
