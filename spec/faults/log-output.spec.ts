import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { fullPipe, namedPipe } from '../support/named-pipe.ts';
import { post, request, untilTask } from '../support/program.ts';
import { type RedirectedServices, startRedirected } from '../support/redirected-services.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../support/small-disk.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { until } from '../support/until.ts';

/** Number of tasks that fail during a fault. Each logs one line. */
const FAILURES = 5;

/** Submits a task that fails, which logs a warning. */
async function failTask({ tasks }: RedirectedServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  expect(status).to.equal(202);
  await untilTask(tasks, body.id, 'failed');
}

/** Asserts that requests and ticks continue during a fault. */
async function serveDuring(services: RedirectedServices, fault: () => unknown = () => {}): Promise<void> {
  const client = await watchSteadily(services);
  await fault();
  for (let i = 0; i < FAILURES; i++) await failTask(services);
  expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
  expect(await services.token()).to.be.a('string');
  await client.checkAfterNextTick();
}

const lostLines = (services: RedirectedServices) => services.metric('log_lines_lost_total');

/** Waits until the lines of all failed tasks are counted as lost. */
async function linesAreLost(services: RedirectedServices): Promise<void> {
  await until(async () => (await lostLines(services)) >= FAILURES);
  const lost = await lostLines(services);
  const { status, body } = await request(`${services.admin}/readyz`);
  expect(status).to.equal(200);
  expect(body.checks.log.state).to.equal('warning');
  expect(Number.parseInt(body.checks.log.detail, 10)).to.be.at.least(lost);
}

describe('a process whose standard output is', () => {
  for (const [what, open] of [
    ['a full device', async () => ({ path: '/dev/full', close() {} })],
    ['a pipe without a reader', namedPipe],
  ] as const) {
    it(`${what} loses lines, counts them, and continues`, async () => {
      const { path, close } = await open();
      const services = await startRedirected({ redirect: `>${path}` });
      await serveDuring(services, close);
      await linesAreLost(services);
      expect((await services.end()).code).to.equal(0);
    });
  }

  it('a full pipe buffers lines and continues', async () => {
    const services = await startRedirected({ redirect: `>${await fullPipe()}` });
    await serveDuring(services);
    expect(await lostLines(services)).to.equal(0);
    expect((await services.end()).code).to.equal(0);
  });
});

describeWith(lackingProgram('script', 'setsid'), 'a process whose standard output is a terminal', () => {
  it('continues while the terminal is paused with Ctrl-S', async () => {
    const services = await startRedirected({ terminal: true });
    await serveDuring(services, () => services.parent.stdin?.write('\x13'));
    expect((await services.end()).code).to.equal(0);
  });

  it('loses lines, counts them, and continues after the terminal was closed', async () => {
    const services = await startRedirected({ terminal: true, ownSession: true });
    await serveDuring(services, async () => {
      // The terminal takes lines until the end of `script`, which is later than the signal.
      const ended = once(services.parent, 'exit');
      services.parent.kill('SIGKILL');
      await ended;
    });
    await linesAreLost(services);
    expect((await services.end()).code).to.equal(0);
  });
});

describeWithSmallDisk('a process whose standard output is a file on a full disk', () => {
  it('loses lines, and reports their number once there is room again', async () => {
    const disk = await mountSmallDisk(1);
    const path = join(disk.path, 'log');
    const services = await startRedirected({ redirect: `>${path}` });
    await serveDuring(services, () => disk.fill());
    // The last page of the file may still have had room for some lines.
    await until(async () => {
      await failTask(services);
      return (await lostLines(services)) > 0;
    });
    await disk.free();
    await failTask(services);
    expect((await services.end()).code).to.equal(0);
    const lines = readFileSync(path, 'utf8').trim().split('\n');
    expect(JSON.parse(lines.at(-1) ?? '')).to.include({ msg: 'stopped' });
    const report = lines.find((line) => line.includes('"log lines were lost: standard output did not take them"'));
    expect(JSON.parse(report ?? ''))
      .to.include({ level: 40 })
      .and.to.have.property('lost')
      .that.is.at.least(1);
  });
});
