import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { fullPipe, namedPipe } from '../support/named-pipe.ts';
import { post, request } from '../support/program.ts';
import { type RedirectedServices, type RedirectOptions, startRedirected } from '../support/redirected-services.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../support/small-disk.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';

/** Submits a task that fails, which logs a warning. */
async function failTask({ tasks }: RedirectedServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  expect(status).to.equal(202);
  await eventually(
    () => request(`${tasks}/tasks/${body.id}`),
    (answer) => answer.body.status === 'failed',
  );
}

/** Asserts that requests and ticks continue during a fault. */
async function serveDuring(services: RedirectedServices, fault: () => unknown = () => {}): Promise<void> {
  const client = await watchSteadily(services);
  await fault();
  for (let i = 0; i < 5; i++) await failTask(services);
  expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
  expect(await services.token()).to.be.a('string');
  await client.checkAfterNextTick();
  await client.checkAfterNextTick();
}

async function stop(services: RedirectedServices): Promise<void> {
  process.kill(services.pid, 'SIGTERM');
  expect(await services.exitCode()).to.equal(0);
}

for (const LOG_FORMAT of ['json', 'pretty']) {
  const start = (options: RedirectOptions) => startRedirected({ env: { LOG_FORMAT }, ...options });

  describe(`standard output that takes no ${LOG_FORMAT} lines stops nothing`, () => {
    it('a full device', async () => {
      const services = await start({ redirect: '>/dev/full' });
      await serveDuring(services);
      expect(await services.metric('log_lines_lost_total')).to.be.at.least(5);
      await stop(services);
    });

    it('a pipe whose reader has gone', async () => {
      const { path, close } = await namedPipe();
      const services = await start({ redirect: `>${path}` });
      await serveDuring(services, close);
      expect(await services.metric('log_lines_lost_total')).to.be.at.least(5);
      await stop(services);
    });

    it('a pipe whose reader has stalled', async () => {
      const services = await start({ redirect: `>${await fullPipe()}` });
      await serveDuring(services);
      expect(await services.metric('log_lines_lost_total')).to.equal(0);
      await stop(services);
    });

    describeWith(lackingProgram('script', 'setsid'), 'a terminal', () => {
      it('that is paused with Ctrl-S', async () => {
        const services = await start({ terminal: true });
        await serveDuring(services, () => services.parent.stdin?.write('\x13'));
        await stop(services);
      });

      it('that is gone', async () => {
        const services = await start({ terminal: true, ownSession: true });
        await serveDuring(services, () => services.parent.kill('SIGKILL'));
        expect(await services.metric('log_lines_lost_total')).to.be.at.least(5);
        await stop(services);
      });
    });
  });
}

describeWithSmallDisk('a log file on a full disk', () => {
  it('loses lines, and reports their number once there is room again', async () => {
    const disk = await mountSmallDisk(1);
    const path = join(disk.path, 'log');
    const services = await startRedirected({ redirect: `>${path}`, env: { LOG_FORMAT: 'json' } });
    await serveDuring(services, () => disk.fill());
    // The last page of the file may still have had room for some lines.
    await eventually(
      () => failTask(services).then(() => services.metric('log_lines_lost_total')),
      (lost) => lost > 0,
    );
    await disk.free();
    await failTask(services);
    await stop(services);
    const lines = readFileSync(path, 'utf8').trim().split('\n').flatMap(parsed);
    expect(lines.at(-1)).to.include({ msg: 'stopped' });
    const report = lines.find(({ msg }) => msg === 'log lines were lost: standard output did not take them');
    expect(report).to.include({ level: 40 });
    expect(report?.lost).to.be.at.least(1);
  });
});

/** The line truncated by the full disk is not valid JSON. */
function parsed(line: string): Record<string, unknown>[] {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}
