import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, type RunningServices, request, startServices, untilTask } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

/** Waits until a task is completed or failed. */
const ended = ({ tasks }: RunningServices, id: string) => untilTask(tasks, id, 'completed', 'failed');
const submit = async ({ tasks }: RunningServices, action: string, data: object = {}): Promise<string> =>
  (await post(`${tasks}/tasks`, { action, data })).body.id;

describe('a process with a handlers module', () => {
  it('runs its handlers, refuses other data and actions, and describes its actions', async () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    const TASK_HANDLERS = await writeHandlers(`export default {
      double: { handler: ({ n }, { log }) => { log.info('doubling'); return n * 2; }, schema: ${JSON.stringify(schema)} },
      uppercase: () => 'own',
      busy: { handler() { throw new RetryAfter(20, 'busy'); }, maxAttempts: 2 },
    }`);
    const services = await startServices({ env: { TASK_HANDLERS, TASK_UNKNOWN_ACTIONS: 'reject' } });
    const { tasks, admin, logged } = services;
    const id = await submit(services, 'double', { n: 21 });
    expect((await ended(services, id)).result).to.equal('{"output":42}');
    expect(await logged(({ msg }) => msg === 'doubling')).to.include({ task: id, action: 'double' });
    expect((await ended(services, await submit(services, 'uppercase'))).result).to.equal('{"output":"own"}');
    expect(await ended(services, await submit(services, 'busy'))).to.include({ attempts: 2, reason: 'busy' });
    const invalid = { error: 'invalid data', path: '/n', detail: 'must be present' };
    expect((await post(`${tasks}/tasks`, { action: 'double' })).body).to.deep.equal(invalid);
    expect((await post(`${tasks}/tasks`, { action: 'other' })).body).to.deep.equal({ error: 'unknown action' });
    const actions = [{ name: 'uppercase' }, { name: 'sum' }, { name: 'double', schema }, { name: 'busy' }];
    expect((await request(`${tasks}/actions`)).body).to.deep.equal({ actions, unknown_actions: 'reject' });
    const { components } = (await request(`${admin}/openapi.json`)).body;
    expect(components.schemas.Submission.anyOf[0].properties.action).to.deep.equal({ const: 'double' });
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
