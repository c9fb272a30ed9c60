import { once } from 'node:events';
import { expect } from 'chai';
import { fullPipe, namedPipe } from '../support/named-pipe.ts';
import { post, request } from '../support/program.ts';
import { type RedirectedServices, type RedirectOptions, startRedirected } from '../support/redirected-services.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';

/** Number of tasks that fail during a fault. Each logs one line. */
const FAILURES = 5;

/** Submits a task that fails, which logs a warning. */
export async function failTask({ tasks }: RedirectedServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  expect(status).to.equal(202);
  await eventually(
    () => request(`${tasks}/tasks/${body.id}`),
    (answer) => answer.body.status === 'failed',
  );
}

/** Asserts that requests and ticks continue during a fault. */
export async function serveDuring(services: RedirectedServices, fault: () => unknown = () => {}): Promise<void> {
  const client = await watchSteadily(services);
  await fault();
  for (let i = 0; i < FAILURES; i++) await failTask(services);
  expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
  expect(await services.token()).to.be.a('string');
  await client.checkAfterNextTick();
  await client.checkAfterNextTick();
}

/** Waits until the lines of all failed tasks are counted as lost. */
async function linesAreLost(services: RedirectedServices): Promise<void> {
  const lost = await eventually(
    () => services.metric('log_lines_lost_total'),
    (count) => count >= FAILURES,
  );
  const { status, body } = await request(`${services.admin}/readyz`);
  expect(status).to.equal(200);
  expect(body.checks.log.state).to.equal('warning');
  expect(Number.parseInt(body.checks.log.detail, 10)).to.be.at.least(lost);
}

export async function stop(services: RedirectedServices): Promise<void> {
  process.kill(services.pid, 'SIGTERM');
  expect(await services.exitCode()).to.equal(0);
}

type LogFormat = 'json' | 'pretty';

const startWith = (LOG_FORMAT: LogFormat, options: RedirectOptions) =>
  startRedirected({ env: { LOG_FORMAT }, ...options });

/** Defines the specs of a standard output that is a device or a pipe. */
export function describeDevices(format: LogFormat): void {
  describe(`standard output that takes no ${format} lines stops nothing`, () => {
    it('a full device', async () => {
      const services = await startWith(format, { redirect: '>/dev/full' });
      await serveDuring(services);
      await linesAreLost(services);
      await stop(services);
    });

    it('a pipe whose reader has gone', async () => {
      const { path, close } = await namedPipe();
      const services = await startWith(format, { redirect: `>${path}` });
      await serveDuring(services, close);
      await linesAreLost(services);
      await stop(services);
    });

    it('a pipe whose reader has stalled', async () => {
      const services = await startWith(format, { redirect: `>${await fullPipe()}` });
      await serveDuring(services);
      expect(await services.metric('log_lines_lost_total')).to.equal(0);
      await stop(services);
    });
  });
}

/** Defines the specs of a standard output that is a terminal. */
export function describeTerminals(format: LogFormat): void {
  describeWith(lackingProgram('script', 'setsid'), `a terminal that takes no ${format} lines stops nothing`, () => {
    it('that is paused with Ctrl-S', async () => {
      const services = await startWith(format, { terminal: true });
      await serveDuring(services, () => services.parent.stdin?.write('\x13'));
      await stop(services);
    });

    it('that is gone', async () => {
      const services = await startWith(format, { terminal: true, ownSession: true });
      await serveDuring(services, async () => {
        // The terminal takes lines until the end of `script`, which is later than the signal.
        const ended = once(services.parent, 'exit');
        services.parent.kill('SIGKILL');
        await ended;
      });
      await linesAreLost(services);
      await stop(services);
    });
  });
}
