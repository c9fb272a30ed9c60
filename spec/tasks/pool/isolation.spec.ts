import childProcess, { type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import { expect } from 'chai';
import type { TaskProcessStart } from '../../../workers/tasks/messages.ts';
import { afterTest } from '../../support/cleanup.ts';
import { post, startServices } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers, writeHandlers } from '../handlers/handling.ts';

const own = { TASK_ISOLATION: 'process', TASK_CANCEL_GRACE_MS: '60000' };

const handlers = `
  ok: () => 'ok',
  pid: () => process.pid,
  heed: async (_, { signal }) => { await aborted(signal); throw signal.reason; },
  abort: () => process.kill(process.pid, 'SIGABRT'),
`;

const crashed = { ended: 'crashed', reason: 'process died: SIGABRT' };

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

/** Calls `fork` instead of Node's function of this name, with Node's function, until the test ends. */
function mockFork(fork: (start: () => ChildProcess) => ChildProcess): void {
  const original = childProcess.fork;
  const replacement = (...args: unknown[]) => fork(() => Reflect.apply(original, childProcess, args));
  mock.method(childProcess, 'fork', replacement as typeof original);
  syncBuiltinESMExports();
  // The mock is restored by then.
  afterTest(syncBuiltinESMExports);
}

describe('a pool whose threads have processes of their own', () => {
  it('loses only the task that allocates a string larger than the heap, which ends its process', async () => {
    const env = { ...own, TASK_MEMORY_MB: '32', TASK_CONCURRENCY: '2' };
    const { run, cancel, pool, told, logged } = await startHandlers(`${handlers} huge: () => 'x'.repeat(1e8),`, env);
    const beside = run('heed');
    await until(() => told.length === 1);
    const [huge, after] = [run('huge'), run('ok')];
    expect(await huge).to.deep.equal(crashed);
    const { reason } = await logged(({ msg }) => msg === 'the process of a task thread ended: it is replaced');
    expect([reason, await after]).to.deep.equal(['process died: SIGABRT', returned]);
    cancel(1);
    expect([await beside, pool.serving]).to.deep.equal([{ ended: 'cancelled' }, true]);
  });

  it('delays the load of processes that end again and again, but not after the crash of a task, and replaces none that its stop ends', async () => {
    const delays: number[] = [];
    const loads: number[] = [];
    const children: ChildProcess[] = [];
    mockFork((start) => {
      const child = start();
      const { mock: sent } = mock.method(child, 'send');
      child.once('message', () => {
        const first = sent.calls[0]?.arguments[0] as TaskProcessStart | undefined;
        delays.push(first?.loadDelayMs ?? Number.NaN);
        loads.push(performance.now());
        // The first process must live until the pool has started.
        if (loads.length > 1 && loads.length < 5) child.kill('SIGKILL');
      });
      children.push(child);
      return child;
    });
    const { run, pool } = await startHandlers(handlers, own);
    expect(await run('ok')).to.deep.equal(returned);
    children[0]?.kill('SIGKILL');
    await until(() => loads.length === 5);
    expect(delays).to.deep.equal([0, 0, 50, 100, 200]);
    const [before, last] = loads.slice(-2) as [number, number];
    expect(last - before).to.be.at.least(200);
    expect(await run('abort')).to.deep.equal(crashed);
    expect(await run('ok')).to.deep.equal(returned);
    // A service manager signals all processes of a service.
    for (const signal of ['SIGINT', 'SIGTERM'] as const) children.at(-1)?.kill(signal);
    expect(await run('ok')).to.deep.equal(returned);
    expect(delays.slice(5)).to.deep.equal([0]);
    await pool.stop(Promise.resolve());
    expect(children, 'none in place of those that the stop ends').to.have.length(6);
    expect(children.at(-1)?.signalCode).to.equal('SIGKILL');
  });

  it('says why it does not start', async () => {
    const module = `...(process.getBuiltinModule('worker_threads').workerData.abortChannel && (() => { throw new Error('no'); })()),`;
    const error = await startHandlers(module, own).catch((failure) => failure);
    expect(error.message).to.match(/^the task threads do not start: no, at \S+:2:\d+: /);
  });

  it('does not start if only some of its processes can be created, and ends those', async () => {
    const children: ChildProcess[] = [];
    mockFork((start) => {
      if (children.length === 1) throw new Error('spawn ENOMEM');
      const child = start();
      children.push(child);
      return child;
    });
    const error = await startHandlers(handlers, { ...own, TASK_CONCURRENCY: '2' }).catch((failure) => failure);
    expect(error.message).to.equal('spawn ENOMEM');
    await until(() => children.every(({ exitCode, signalCode }) => (exitCode ?? signalCode) !== null));
  });

  it('does not start if a process ends after its own test, while another loads', async () => {
    const closed = Promise.withResolvers<unknown>();
    let first: ChildProcess | undefined;
    mockFork((start) => {
      const child = start();
      if (first === undefined) {
        first = child.once('close', closed.resolve);
        first.on('message', (message: object) => 'isLoaded' in message && child.kill('SIGKILL'));
      } else {
        const { send } = child;
        const sendLate = (...args: unknown[]) => void closed.promise.then(() => Reflect.apply(send, child, args));
        child.send = sendLate as unknown as typeof send;
      }
      return child;
    });
    const error = await startHandlers(handlers, { ...own, TASK_CONCURRENCY: '2' }).catch((failure) => failure);
    expect(error.message).to.equal('the task threads do not start: a thread ended during the test');
  });

  it('ends with the service that it belongs to, even if a handler blocks', async () => {
    const source = 'export default { block(_, { log }) { log.info(String(process.pid)); for (;;); } };';
    const env = { TASK_HANDLERS: await writeHandlers(source), TASK_ISOLATION: 'process' };
    const services = await startServices({ env });
    const { body } = await post(`${services.tasks}/tasks`, { action: 'block' });
    const pid = Number((await services.logged(({ task }) => task === body.id)).msg);
    expect(isAlive(pid)).to.equal(true);
    services.child.kill('SIGKILL');
    await until(() => !isAlive(pid));
  });
});
