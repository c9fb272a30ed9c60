import { once } from 'node:events';
import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { holdTasks } from '../support/held-tasks.ts';
import { post, request, startProgram, startServices, untilTask } from '../support/program.ts';
import { startRedirected } from '../support/redirected-services.ts';
import { lackingProgram } from '../support/requirements.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

/** Number of rows in the table of tasks. Call it only after the process has exited. */
function storedTasks(dataDir: string): number {
  const database = new DatabaseSync(join(dataDir, 'tasks.db'));
  const { count } = database.prepare('SELECT count(*) AS count FROM tasks').get() as { count: number };
  database.close();
  return count;
}

/** Starts a shutdown that has to wait for a lock on the rows. */
async function stopWithLockedRows(signal: NodeJS.Signals) {
  const DATA_DIR = await temporaryFolder();
  const services = await startServices({ env: { DATA_DIR, SHUTDOWN_TIMEOUT_MS: '60000' } });
  const database = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
  afterTest(() => database.close());
  database.exec('BEGIN EXCLUSIVE');
  const { body } = await post(`${services.tasks}/tasks`, { action: 'sum' });
  // Waits until the task is in flight, because a shutdown does not wait for queued tasks.
  await untilTask(services.tasks, body.id, 'running');
  services.child.kill(signal);
  await services.logged(({ msg }) => msg === 'stopping');
  return { services, database };
}

describe('the stop', () => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    it(`on ${signal} closes the sockets with 1001 and ends with exit code 0`, async () => {
      const services = await startServices();
      const client = await connect(services.stream, { token: await services.token() });
      services.child.kill(signal);
      expect(await client.closed).to.deep.equal({ code: 1001, reason: 'server is shutting down' });
      expect(await services.exited).to.deep.equal({ code: 0, signal: null });
      expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
    });
  }

  it('ends a start that is under way, with exit code 0', async () => {
    const program = await startProgram();
    await program.logged(({ msg }) => msg.startsWith('demo API key'));
    program.child.kill('SIGTERM');
    expect(await program.exited).to.deep.equal({ code: 0, signal: null });
  });

  it('cuts an incomplete request while there is time left, and processes all accepted tasks before it exits', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, SHUTDOWN_TIMEOUT_MS: '4000' } });
    const socket = connectTcp(Number(new URL(services.tasks).port), '127.0.0.1');
    afterTest(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.resume();
    socket.write('POST /tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{');
    const cut = once(socket, 'close');
    const submit = () => post(`${services.tasks}/tasks`, { action: 'uppercase', data: { text: 'x'.repeat(1000) } });
    const answers = await Promise.all(Array.from({ length: 200 }, submit));
    services.child.kill('SIGTERM');
    expect((await services.exited).code).to.equal(0);
    await cut;
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
    expect(answers.every(({ status }) => status === 202)).to.equal(true);
    expect(storedTasks(DATA_DIR)).to.equal(answers.length);
  });

  it('waits no longer than its time for tasks and for clients, and counts in its last line what is unfinished', async () => {
    const { module: TASK_HANDLERS } = await holdTasks();
    const services = await startServices({ env: { TASK_HANDLERS, SHUTDOWN_TIMEOUT_MS: '500' } });
    for (let i = 0; i < 10; i++) await post(`${services.tasks}/tasks`, { action: 'hold' });
    const { port } = new URL(services.ticker);
    const socket = connectTcp(Number(port), '127.0.0.1');
    afterTest(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write('POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{');
    // The response to another request shows that the first one has arrived.
    await request(services.ticker);
    services.child.kill('SIGTERM');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ unfinished: 10 });
    // Without the shutdown timeout, the shutdown would wait for the request's own timeout of 30 s.
    const at = (message: string) => Date.parse(services.lines.find(({ msg }) => msg === message)?.time as string);
    expect(at('stopped') - at('stopping')).to.be.within(0, 10_000);
  });

  it('takes signals that come together for one, and is forced by a later one', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, SHUTDOWN_TIMEOUT_MS: '60000' } });
    const database = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => database.close());
    database.exec('BEGIN EXCLUSIVE');
    await post(`${services.tasks}/tasks`, { action: 'sum' });
    for (let i = 0; i < 3; i++) services.child.kill('SIGINT');
    await services.logged(({ msg }) => msg === 'stopping');
    // Repeated signals within the first second count as one.
    await eventually(
      () => services.child.kill('SIGINT'),
      () => services.lines.at(-1)?.msg === 'stopped by force',
    );
    expect((await services.exited).code).to.equal(20);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped by force', unfinished: 1 });
  });

  it('by force exits with 1 where the queue is durable', async () => {
    const TASK_HANDLERS = await writeHandlers('export default { ignore: () => new Promise(() => {}) };');
    const times = { SHUTDOWN_TIMEOUT_MS: '60000', TASK_CANCEL_GRACE_MS: '60000' };
    const services = await startServices({ env: { QUEUE_DRIVER: 'sqlite', TASK_HANDLERS, ...times } });
    const { body } = await post(`${services.tasks}/tasks`, { action: 'ignore' });
    await untilTask(services.tasks, body.id, 'running');
    // Repeated signals within the first second count as one.
    await eventually(
      () => services.child.kill('SIGTERM'),
      () => services.lines.at(-1)?.msg === 'stopped by force',
    );
    expect((await services.exited).code).to.equal(1);
    expect(services.lines.at(-1)).to.include({ unfinished: 0 });
  });

  it('is not forced by a second SIGHUP', async () => {
    const { services, database } = await stopWithLockedRows('SIGHUP');
    await services.logged(({ msg }) => msg === 'results cannot be stored: all tasks wait');
    services.child.kill('SIGHUP');
    database.exec('COMMIT');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  });

  it('is orderly when its terminal is closed', async function () {
    if (lackingProgram('script') !== undefined) this.skip();
    const services = await startRedirected({ terminal: true });
    const ids = await Promise.all(
      Array.from({ length: 100 }, () => post(`${services.tasks}/tasks`, { action: 'x' }).then(({ body }) => body.id)),
    );
    services.parent.kill('SIGKILL');
    expect((await services.exited).code).to.equal(0);
    expect(storedTasks(services.dataDir)).to.equal(ids.length);
  });
});
