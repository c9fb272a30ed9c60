import { join } from 'node:path';
import { expect } from 'chai';
import { run, runCommand } from '../../support/command.ts';
import { examples, projectWith, section } from '../../support/examples.ts';
import { type HttpResponse, post, projectFolder, request, startServices, untilTask } from '../../support/program.ts';
import { serve } from '../../support/server.ts';
import { eventually } from '../../support/until.ts';

const FILE = 'www/guide/handlers.md';
const HTTP_CALL = 'An HTTP call';
const PROCESSOR = 'Work for the processor';
const SCHEMA = 'A schema and a permanent error';

/** Writes the only module below a heading, exactly as printed, in a folder of its own. Returns the folder. */
async function writeExample(heading: string, files: Record<string, string> = {}): Promise<string> {
  const [module = '', ...others] = examples(FILE, heading, 'ts');
  expect(others).to.deep.equal([]);
  return projectWith({ 'handlers.ts': module, ...files });
}

async function startExample(heading: string, env: Record<string, string> = {}) {
  const TASK_HANDLERS = join(await writeExample(heading), 'handlers.ts');
  const { tasks } = await startServices({ env: { TASK_HANDLERS, ...env } });
  const submit = async (action: string, data: object): Promise<string> =>
    (await post(`${tasks}/tasks`, { action, data })).body.id;
  const ends = async (action: string, data: object, ...states: string[]) =>
    untilTask(tasks, await submit(action, data), ...states);
  return { tasks, submit, ends };
}

describe('the handlers of the guide', () => {
  it('call a receiver with an idempotency key, and retry or discard the task as the response demands', async () => {
    const keys: unknown[] = [];
    const answers = [
      [503, '', {}],
      [429, '', { 'Retry-After': '0' }],
      [200, '{"number": 7}', {}],
      [404, 'unknown article', {}],
    ] as const;
    const { url: RECEIVER_URL } = await serve((incoming, outgoing) => {
      const [status, text, headers] = answers[keys.length] ?? [500, '', {}];
      keys.push(incoming.headers['idempotency-key']);
      outgoing.writeHead(status, headers).end(text);
    });
    const { ends } = await startExample(HTTP_CALL, { RECEIVER_URL });
    const first = await ends('order', { article: 1 });
    expect(first.result).to.equal('{"output":{"number":7}}');
    const second = await ends('order', { article: 2 }, 'failed');
    expect(second).to.include({ reason: 'the receiver refused the order: unknown article', attempts: 1 });
    expect(keys).to.deep.equal([first.id, first.id, first.id, second.id]);
  });

  it('end a call when the time limit has passed', async () => {
    const disconnected = Promise.withResolvers<void>();
    const { url: RECEIVER_URL } = await serve(({ socket }) => socket.once('close', disconnected.resolve));
    // A thread that is terminated closes the connection, too, but counts as a crash.
    const env = { RECEIVER_URL, TASK_TIMEOUT_MS: '200', TASK_CANCEL_GRACE_MS: '30000' };
    const { ends } = await startExample(HTTP_CALL, env);
    const ended = await ends('order', {}, 'retrying', 'failed');
    expect(ended).to.include({ attempts: 1, reason: 'took longer than 200 ms' });
    await disconnected.promise;
  });

  it('compute with progress, and stop when they are cancelled', async () => {
    const args = ['run', join(await writeExample(PROCESSOR), 'handlers.ts'), 'primes', '{"below": 200000}'];
    const { code, stdout, stderr } = await runCommand('handlers', args, {});
    expect({ code, stdout }).to.deep.equal({ code: 0, stdout: '{"output":{"count":17984}}\n' });
    expect(stderr).to.match(/"fraction":0\.\d+,"note":"\d+ primes below \d+"/);

    // A thread that is terminated ends the task, too, but only after a minute.
    const { tasks, submit } = await startExample(PROCESSOR, { TASK_CANCEL_GRACE_MS: '60000' });
    const url = `${tasks}/tasks/${await submit('primes', { below: 400_000_000 })}`;
    // A task that has not started gets 204.
    const answerWhen = (fits: (answer: HttpResponse) => boolean) => eventually(() => request(url), fits);
    await answerWhen(({ body }) => body.progress !== undefined);
    expect((await request(url, { method: 'DELETE' })).status).to.equal(202);
    await answerWhen(({ status }) => status === 404);
    expect((await request(`${tasks}/queue`)).body).to.include({ cancelled: 1, completed: 0 });
  });

  it('refuse data by its schema, and discard a task that cannot succeed', async () => {
    const { tasks, ends } = await startExample(SCHEMA);
    const wrong = { customer: 'C-1001', lines: [{ text: 'Hosting', cents: 'many' }] };
    const { body } = await post(`${tasks}/tasks`, { action: 'invoice', data: wrong });
    expect(body).to.deep.equal({ error: 'invalid data', path: '/lines/0/cents', detail: 'must be integer' });
    const lines = [{ text: 'Hosting', cents: 1200, count: 2 }];
    const { result } = await ends('invoice', { customer: 'C-1001', lines });
    expect(result).to.equal('{"output":{"name":"Ada Ltd","cents":2880}}');
    const failed = await ends('invoice', { customer: 'C-2', lines }, 'failed');
    expect(failed).to.include({ attempts: 1, reason: 'there is no customer C-2' });
  });

  it('pass the unit tests of the guide', async () => {
    const [test = ''] = examples(FILE, 'Unit tests', 'ts');
    const cwd = await writeExample(SCHEMA, { 'handlers.spec.ts': test });
    const mocha = join(projectFolder, 'node_modules/mocha/bin/mocha.js');
    const { code, stdout } = await run(process.execPath, [mocha, 'handlers.spec.ts'], { cwd });
    expect(code, stdout).to.equal(0);
    expect(stdout).to.include('2 passing');
  });

  it('are checked and run with the commands of the guide', async () => {
    const cwd = await writeExample(SCHEMA);
    const program = `"${process.execPath}" "${join(projectFolder, 'main/cli/handlers.ts')}"`;
    const commands = examples(FILE, 'Test it')[0]?.replaceAll('npm run --silent handlers --', program) ?? '';
    const { stdout, code } = await run('bash', ['-c', commands], { cwd });
    const [, printed] = /\n\n```\n([\s\S]*?)```/.exec(section(FILE, 'Test it')) ?? [];
    expect({ stdout, code }).to.deep.equal({ stdout: printed, code: 1 });
  });
});
