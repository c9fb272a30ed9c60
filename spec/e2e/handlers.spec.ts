import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { projectWith } from '../support/examples.ts';
import { post, request, startServices, untilAnswer, untilTask } from '../support/program.ts';
import { until } from '../support/until.ts';

describe('a process that watches its handlers module', () => {
  /** Starts it with a module whose action `slow` ends once the file `end` exists, and which imports `lib.ts`. */
  async function start(env: Record<string, string> = {}) {
    const folder = await temporaryFolder();
    const write = async (name: string, text: string) => writeFileSync(join(folder, name), text);
    await write('lib.ts', `export const word: string = 'old';`);
    const imports = `import { existsSync } from 'node:fs';\nimport { word } from './lib.ts';\n`;
    const slow = `async slow() { while (!existsSync(new URL('end', import.meta.url))) await new Promise(setImmediate); return word; }`;
    const module = (rest: string) => write('handlers.ts', `${imports}export default { ${slow}, ${rest} };\n`);
    await module('say: () => word, gone: () => 1');
    const TASK_HANDLERS = join(folder, 'handlers.ts');
    const services = await startServices({ args: ['--watch'], env: { TASK_HANDLERS, TASK_CONCURRENCY: '2', ...env } });
    const { tasks } = services;
    const submit = (action: string, data = {}) => post(`${tasks}/tasks`, { action, data });
    const outcome = async (id: string) => JSON.parse((await untilTask(tasks, id)).result).output;
    const run = async (action: string) => outcome((await submit(action)).body.id);
    const line = (...texts: string[]) => services.logged(({ msg }) => texts.every((text) => msg.includes(text)));
    return { ...services, write, module, submit, outcome, run, line };
  }

  it('runs a changed import in new processes of threads, while running handlers end in the old ones', async () => {
    const { write, submit, outcome, run, line, tasks } = await start({ TASK_ISOLATION: 'process' });
    const { id } = (await submit('slow')).body;
    await untilTask(tasks, id, 'running');
    expect(await run('say')).to.equal('old');
    await write('lib.ts', `export const word: string = 'new';`);
    expect((await line('handlers module reloaded')).msg).to.match(/lib\.ts\): changed code outside of the handlers$/);
    const words = await Promise.all([1, 2, 3].map(() => run('say')));
    expect(words).to.deep.equal(['new', 'new', 'new']);
    await write('end', '');
    expect(await outcome(id)).to.equal('old');
    expect((await untilTask(tasks, id)).attempts).to.equal(1);
    expect(await run('slow')).to.equal('new');
  });

  it('follows the rules of a changed module once its limits and schedules can be stored, and says what has changed', async () => {
    const { module, submit, run, line, tasks, admin, env } = await start({ QUEUE_DRIVER: 'sqlite' });
    const known = async () => (await request(`${admin}/openapi.json`)).body.components.schemas.Submission.properties;
    expect((await known()).action.enum).to.deep.equal(['uppercase', 'sum', 'slow', 'say', 'gone']);
    // Checked by the submission thread.
    const large = { text: 'x'.repeat(20_000) };
    expect((await submit('fresh', large)).body.error).to.equal('unknown action');
    const [file, away] = [join(env.DATA_DIR, 'tasks.db'), join(env.DATA_DIR, 'away')];
    renameSync(file, away);
    const schema = `{ type: 'object', required: ['n'] }`;
    await module(`say: () => word + '!', fresh: { handler: () => 2, schema: ${schema}, limits: { concurrency: 1 } } };
      export const schedules = { nightly: { cron: '0 0 * * *', action: 'say' }`);
    await line('the previous handlers module keeps running: ');
    const kept = JSON.stringify((await request(`${tasks}/actions`)).body);
    expect(kept).to.include('"gone"').and.not.include('"fresh"');
    renameSync(away, file);
    const { msg } = await line('handlers module reloaded');
    expect(msg).to.match(/handlers\.ts\): changed say; removed gone; added fresh, schedule nightly$/);
    expect(await run('say')).to.equal('old!');
    expect((await submit('gone')).body.error).to.equal('unknown action');
    for (const data of [{}, large])
      expect((await submit('fresh', data)).body).to.include({ error: 'invalid data', path: '/n' });
    const { limits } = (await request(`${tasks}/limits`)).body;
    const { schedules } = (await request(`${tasks}/schedules`)).body;
    expect([...limits, ...schedules].map(({ action, name }) => name ?? action)).to.deep.equal(['fresh', 'nightly']);
    expect((await request(`${admin}/metrics`)).body).to.include('tasks_attempts_total{action="fresh",');
    expect((await known()).action.enum).to.deep.equal(['uppercase', 'sum', 'slow', 'say', 'fresh']);
  });

  it('keeps the previous module while the changed one cannot be loaded or imports a file that is missing, also in a thread that is replaced', async () => {
    const limits = { TASK_TIMEOUT_MS: '300', TASK_CANCEL_GRACE_MS: '0' };
    const { write, run, line, submit, tasks, admin } = await start(limits);
    await write('lib.ts', `export const word: string = 'new`);
    const place = /Unterminated string constant, at \S*lib\.ts:1:29: export const word: string = 'new$/;
    expect((await line('the previous handlers module keeps running: ')).msg).to.match(place);
    expect((await request(`${tasks}/queue`)).body.module_problem).to.match(place);
    expect((await request(`${admin}/readyz`)).body.checks.handlers_module.state).to.equal('warning');
    const { id } = (await submit('slow')).body;
    await untilAnswer(`${tasks}/tasks/${id}`, ({ body }) => body.attempts > 0);
    expect(await Promise.all([1, 2, 3].map(() => run('say')))).to.deep.equal(['old', 'old', 'old']);
    await write('lib.ts', `export const word: string = 'new';`);
    await line('handlers module reloaded');
    expect(await run('say')).to.equal('new');
    expect((await request(`${tasks}/queue`)).body).to.not.have.property('module_problem');
    await write('handlers.ts', `import { word } from './later.ts';\nexport default { say: () => word };\n`);
    expect((await line('keeps running: ', 'later.ts')).msg).to.include('the previous handlers module');
    await write('later.ts', `export const word: string = 'late';`);
    await until(async () => (await run('say')) === 'late');
  });
});

describe('a handler that fails in an imported file', () => {
  it('shows the file, line and column in the log, in the history of its attempts and in the dead letter', async () => {
    const handler = `handler({ text }) {
        try { return parse(text); } catch (cause) { throw new Error('unreadable', { cause }); }
      }`;
    const folder = await projectWith({
      'lib.ts': 'export function parse(text: string) {\n  return JSON.parse(text);\n}\n',
      'handlers.ts': `import { parse } from './lib.ts';
      export default { read: { maxAttempts: 2, backoff: { firstMs: 1 }, ${handler} } };`,
    });
    const services = await startServices({ env: { TASK_HANDLERS: join(folder, 'handlers.ts') } });
    const { id } = (await post(`${services.tasks}/tasks`, { action: 'read', data: { text: '{' } })).body;
    const { history } = await untilTask(services.tasks, id, 'failed');
    const place =
      /^Error\n {4}at .*\/handlers\.ts:3:\d+\)\ncaused by SyntaxError: .*\n {4}at parse \(\/.*\/lib\.ts:2:15\)\n {4}at /;
    for (const attempt of history as { stack: string }[]) expect(attempt.stack).to.match(place);
    const [letter] = (await request(`${services.tasks}/dead-letters`)).body.dead_letters;
    expect(letter.history).to.deep.equal(history);
    const line = await services.logged(({ msg, decision }) => msg === 'task failed' && decision === 'discard');
    expect(line).to.deep.include({ task: id, action: 'read', stack: history[1].stack });
  });
});
