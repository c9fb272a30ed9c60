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

async function failTask({ tasks }: RedirectedServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  expect(status).to.equal(202);
  await untilTask(tasks, body.id, 'failed');
}

async function serveDuring(services: RedirectedServices, fault: () => unknown): Promise<void> {
  const client = await watchSteadily(services);
  await fault();
  for (let i = 0; i < FAILURES; i++) await failTask(services);
  expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
  expect(await services.token()).to.be.a('string');
  await client.checkAfterNextTick();
}

const lostLines = (services: RedirectedServices) => services.metric('log_lines_lost_total');

/** Asserts that the service warns that standard output fails, and that the lines wait in the buffer. */
async function expectWarning(services: RedirectedServices): Promise<void> {
  const { status, body } = await request(`${services.admin}/readyz`);
  expect(status).to.equal(200);
  expect(body.checks.log.state).to.equal('warning');
  expect(body.checks.log.detail).to.match(/^standard output takes no log lines: [A-Z]+: /);
  expect(await lostLines(services)).to.equal(0);
}

describeWith(lackingProgram('script', 'setsid'), 'a process whose standard output', () => {
  it('is a pipe that is full, or a terminal that is paused with Ctrl-S, buffers lines and continues', async () => {
    for (const options of [{ redirect: `>${await fullPipe()}` }, { terminal: true }]) {
      const services = await startRedirected(options);
      await serveDuring(services, () => options.terminal && services.parent.stdin?.write('\x13'));
      expect(await lostLines(services)).to.equal(0);
      expect((await services.end()).code).to.equal(0);
    }
  });

  it('has lost its reader or its terminal buffers lines, warns, and continues', async () => {
    const { path, close } = await namedPipe();
    for (const options of [{ redirect: `>${path}` }, { terminal: true, ownSession: true }]) {
      const services = await startRedirected(options);
      await serveDuring(services, async () => {
        if (!options.terminal) return close();
        // The terminal takes lines until the end of `script`, which is later than the signal.
        const ended = once(services.parent, 'exit');
        services.parent.kill('SIGKILL');
        await ended;
      });
      await expectWarning(services);
      expect((await services.end()).code).to.equal(0);
    }
  });
});

describeWithSmallDisk('a process whose standard output is a file on a full disk', () => {
  it('warns, and writes the lines once there is room again', async () => {
    const disk = await mountSmallDisk(1);
    const path = join(disk.path, 'log');
    const services = await startRedirected({ redirect: `>${path}` });
    await serveDuring(services, () => disk.fill());
    let failures = FAILURES;
    const log = async () => (await request(`${services.admin}/readyz`)).body.checks.log;
    // The last page of the file may still have had room for some lines.
    await until(async () => {
      await failTask(services);
      failures += 1;
      return (await log()).state === 'warning';
    });
    await expectWarning(services);
    await disk.free();
    await failTask(services);
    await until(async () => (await log()).state === 'ok');
    expect((await services.end()).code).to.equal(0);
    const lines = Array.from(readFileSync(path, 'utf8').trim().split('\n'), (line) => JSON.parse(line));
    const told = lines.filter(({ msg }) => msg === 'task failed').length;
    expect(told).to.be.within(Math.min(failures + 1, 20), failures + 1);
    expect(lines.at(-1)).to.include({ msg: 'stopped' });
  });
});
