import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { freePort } from '../support/free-port.ts';
import { holdTasks } from '../support/held-tasks.ts';
import { openBeside, runOn } from '../support/migrated-folder.ts';
import { oldNode } from '../support/old-node.ts';
import { type Program, post, request, startProgram, startServices, untilTask } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { startRedirected } from '../support/redirected-services.ts';
import { lackingProgram } from '../support/requirements.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const lockRows = ({ env }: { env: { DATA_DIR: string } }) => openBeside(env.DATA_DIR).exec('BEGIN EXCLUSIVE');

/** Starts services with one accepted task, whose row cannot be written. */
async function startLocked(SHUTDOWN_TIMEOUT_MS: string, node = process.execPath) {
  const services = await startServices({ node, env: { SHUTDOWN_TIMEOUT_MS } });
  lockRows(services);
  await post(`${services.tasks}/tasks`, { action: 'sum' });
  return services;
}

/** Sends a signal until it forces the stop. Signals within a second of the first one count as the same signal. */
async function force({ child, lines }: Program, signal: NodeJS.Signals): Promise<void> {
  await until(() => {
    child.kill(signal);
    return lines.at(-1)?.msg === 'stopped by force';
  });
}

async function expectEnd(program: Program, code: number, msg: string, unfinished: number, signal?: NodeJS.Signals) {
  expect(await (signal ? program.end(signal) : program.exited)).to.deep.equal({ code, signal: null });
  expect(program.lines.at(-1)).to.include({ msg, unfinished });
}

describe('a stop', () => {
  it('closes WebSockets with 1001, and processes all accepted tasks before it exits with exit code 0', async () => {
    const services = await startServices({ env: { SHUTDOWN_TIMEOUT_MS: '100000' } });
    const submit = () => post(`${services.tasks}/tasks`, { action: 'uppercase', data: { text: 'x'.repeat(1000) } });
    const answers = await Promise.all(Array.from({ length: 200 }, submit));
    for (const { status } of answers) expect(status).to.equal(202);
    const client = await connect(services.stream, { token: await services.token() });
    await expectEnd(services, 0, 'stopped', 0, 'SIGTERM');
    expect(await client.closed).to.deep.equal({ code: 1001, reason: 'server is shutting down' });
    expect(runOn(services.env.DATA_DIR, 'SELECT 1 FROM tasks')).to.have.length(answers.length);
  });

  it('waits for tasks and clients no longer than SHUTDOWN_TIMEOUT_MS, and logs the number of unfinished tasks', async () => {
    const { module: TASK_HANDLERS } = await holdTasks();
    const services = await startServices({ env: { TASK_HANDLERS, SHUTDOWN_TIMEOUT_MS: '500' } });
    for (let i = 0; i < 10; i++) await post(`${services.tasks}/tasks`, { action: 'hold' });
    const lines = ['POST /auth/token HTTP/1.1', 'Host: localhost', 'Content-Length: 10'];
    const incomplete = await connectRaw(Number(new URL(services.ticker).port), ...lines);
    // The response to another request shows that the first one has arrived.
    await request(services.ticker);
    await expectEnd(services, 0, 'stopped', 10, 'SIGTERM');
    await incomplete.ended;
    // Without the shutdown timeout, the shutdown would wait for the request's own timeout of 30 s.
    const at = (message: string) => Date.parse(services.lines.find(({ msg }) => msg === message)?.time as string);
    expect(at('stopped') - at('stopping')).to.be.within(0, 20_000);
  });

  it('is forced by a SIGINT a second after the first, by no SIGHUP, and has exit code 20 if tasks of the memory queue are lost', async () => {
    const services = await startLocked('60000');
    for (let i = 0; i < 3; i++) services.child.kill('SIGINT');
    const { time } = await services.logged(({ msg }) => msg === 'stopping');
    await until(() => {
      services.child.kill('SIGHUP');
      return Date.now() - Date.parse(time as string) > 1500;
    });
    expect(services.lines.map(({ msg }) => msg)).to.not.include('stopped by force');
    await force(services, 'SIGINT');
    await expectEnd(services, 20, 'stopped by force', 1);
  });

  it('warns and ends with exit code 20 if the accepted tasks cannot be saved, also if an old Node has started it', async () => {
    const services = await startLocked('200', oldNode());
    await expectEnd(services, 20, 'stopped: accepted tasks are lost', 1, 'SIGTERM');
    expect(services.lines.at(-1)).to.include({ level: 40 });
  });

  it('is forced with exit code 1 if the queue is durable', async () => {
    const TASK_HANDLERS = await writeHandlers('export default { ignore: () => new Promise(() => {}) };');
    const env = { QUEUE_DRIVER: 'sqlite', SHUTDOWN_TIMEOUT_MS: '60000', TASK_CANCEL_GRACE_MS: '60000' };
    const services = await startServices({ env: { TASK_HANDLERS, ...env } });
    const { body } = await post(`${services.tasks}/tasks`, { action: 'ignore' });
    await untilTask(services.tasks, body.id, 'running');
    await force(services, 'SIGTERM');
    await expectEnd(services, 1, 'stopped by force', 0);
  });

  it('processes all accepted tasks if the terminal is closed', async function () {
    if (lackingProgram('script') !== undefined) this.skip();
    const services = await startRedirected({ terminal: true });
    const submissions = Array.from({ length: 100 }, () => post(`${services.tasks}/tasks`, { action: 'x' }));
    await Promise.all(submissions);
    services.parent.kill('SIGKILL');
    expect((await services.exited).code).to.equal(0);
    expect(runOn(services.dataDir, 'SELECT 1 FROM tasks')).to.have.length(submissions.length);
  });

  it("is orderly if npm's shell has ended without the services", async () => {
    // The command after the semicolon keeps the shell from replacing itself.
    const within = ['sh', '-c', '"$0" "$@"; :'];
    const env = { npm_lifecycle_script: "'ticker-and-tasks'" };
    const services = await startServices({ within, detached: true, env });
    // Services that outlive the shell would keep the output open, whose end the clean-up awaits.
    afterTest(() => spawnSync('kill', ['-KILL', '--', `-${services.child.pid}`]));
    // The output is closed when its last writer has ended.
    expect(await services.end()).to.deep.equal({ code: null, signal: 'SIGTERM' });
    expect(services.lines.at(-1)).to.include({ msg: 'stopped' });
  });
});

describe('a stop during the start', () => {
  /** Number of the address lookup that hangs. The first three check the ports. Service B's follows the opening of its queue. */
  const TASKS_LISTENER = 5;
  const ADMIN_LISTENER = 6;

  async function startHanging(hanging: number, env: Record<string, string>) {
    const preload = `import dns from 'node:dns';
      const { lookup } = dns;
      let lookups = 0;
      dns.lookup = (...args) => (++lookups < ${hanging} ? lookup(...args) : console.log('{"msg":"the start hangs"}'));`;
    const nodeOptions = ['--import', `data:text/javascript,${encodeURIComponent(preload)}`];
    const program = await startProgram({ env, nodeOptions });
    await program.logged(({ msg }) => msg === 'the start hangs');
    return program;
  }

  it('loses no task that an earlier process left, not even by force', async () => {
    const first = await startServices();
    await post(`${first.tasks}/queue/pause`, {});
    for (let count = 0; count < 2; count++) await post(`${first.tasks}/tasks`, { action: 'sum' });
    await expectEnd(first, 0, 'stopped', 2, 'SIGTERM');
    const stopped = await startHanging(TASKS_LISTENER, { ...first.env, SHUTDOWN_TIMEOUT_MS: '0' });
    await expectEnd(stopped, 0, 'stopped during the start', 0, 'SIGTERM');
    const forced = await startHanging(TASKS_LISTENER, first.env);
    await force(forced, 'SIGTERM');
    await expectEnd(forced, 1, 'stopped by force', 0);
    expect(runOn(first.env.DATA_DIR, "SELECT id FROM messages WHERE state = 'waiting'")).to.have.length(2);
  });

  it('ends with exit code 20 if tasks were accepted meanwhile and are lost', async () => {
    const port = await freePort();
    const program = await startHanging(ADMIN_LISTENER, { TASKS_PORT: `${port}`, SHUTDOWN_TIMEOUT_MS: '0' });
    lockRows(program);
    expect((await post(`http://127.0.0.1:${port}/tasks`, { action: 'sum' })).status).to.equal(202);
    await expectEnd(program, 20, 'stopped during the start', 1, 'SIGTERM');
  });
});
