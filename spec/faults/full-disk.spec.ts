import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startProgram, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';

const LARGE = 2;

/** Waits until the check of the queue's file reports `state`. Calls `before` ahead of each poll. */
async function untilQueueFile({ admin }: RunningServices, state: string, before = async () => {}): Promise<void> {
  const { status, body } = await eventually(
    async () => {
      await before();
      return request(`${admin}/readyz`);
    },
    ({ body }) => body.checks.queue_file.state === state,
  );
  if (state === 'failed') expect([status, body.status]).to.deep.equal([503, 'not ready']);
}

describeWithSmallDisk('a full disk', () => {
  let disk: SmallDisk;
  beforeEach(async () => {
    disk = await mountSmallDisk(64);
  });

  it(`under the in-memory queue: tasks wait until there is room again, and nothing else is hit ${seedNote}`, async () => {
    const services = await startServices({ env: { DATA_DIR: disk.path } });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(1);
    for (let i = 0; i < 10; i++) await ledger.submit(services.tasks, random);
    disk.fill();
    for (let i = 0; i < 10; i++) expect(await ledger.submit(services.tasks, random, LARGE)).to.equal(202);
    const pause = await services.logged(({ msg }) => msg === 'results cannot be stored: all tasks wait');
    expect(pause.reason).to.equal('database or disk is full');
    const stalled = async () => (await request(`${services.tasks}/queue`)).body.stalled;
    const { reason } = await eventually(stalled, (found) => found !== null);
    expect(reason).to.equal('database or disk is full');
    expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
    expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
    await queueCounts(services.tasks);
    await disk.free();
    await eventually(stalled, (found) => found === null);
    await ledger.settled(services, disk.path);
    await client.checkAfterNextTick();
  });

  it(`under the durable queue: nothing is accepted that is not on disk, and nothing is lost, at a stop either ${seedNote}`, async () => {
    const env = { DATA_DIR: disk.path, QUEUE_DRIVER: 'sqlite', SHUTDOWN_TIMEOUT_MS: '500' };
    const services = await startServices({ env });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(2);
    let over = false;
    const load = ledger.flood(services.tasks, random, { clients: 2, over: () => over });
    /** Submits large tasks until a response has the status `wanted`. */
    const answers = (wanted: number) =>
      eventually(
        () => ledger.submit(services.tasks, random, LARGE),
        (status) => status === wanted,
      );
    for (let time = 0; time < 2; time++) {
      await ledger.grows(random.below(30));
      disk.fill();
      await answers(500);
      await untilQueueFile(services, 'failed', async () => void (await ledger.submit(services.tasks, random, LARGE)));
      expect(
        await post(`${services.tasks}/tasks`, { action: 'x', data: { filler: 'x'.repeat(10_000) } }),
      ).to.deep.include({
        status: 500,
        body: { error: 'failed to queue task' },
      });
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
      await queueCounts(services.tasks);
      await disk.free();
      await untilQueueFile(services, 'ok');
      await answers(202);
    }
    over = true;
    await load;
    await ledger.settled(services, disk.path);
    await client.checkAfterNextTick();

    const lock = new DatabaseSync(join(disk.path, 'tasks.db'));
    afterTest(() => lock.close());
    lock.exec('BEGIN IMMEDIATE');
    for (let i = 0; i < 20; i++) await ledger.submit(services.tasks, random, LARGE);
    disk.fill();
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.include({ code: 0 });
    const stopped = services.lines.find(({ msg }) => msg.startsWith('stopped'));
    expect(stopped).to.include({ msg: 'stopped', unfinished: 20 });
    lock.exec('ROLLBACK');
    await disk.free();
    // The writes that failed on the full disk were repeated, so the next process finds the same tasks.
    await ledger.settled(await startServices({ env }), disk.path);
  }).timeout(60_000);

  it('at the start is said in one line', async () => {
    disk.fill();
    const program = await startProgram({ env: { DATA_DIR: disk.path } });
    expect(await program.exited).to.deep.include({ code: 1 });
    expect(program.lines).to.have.length(1);
    expect(program.lines[0]?.msg).to.match(/^cannot lock .*queue\.lock: .* full: free some space$/);
  });
});
