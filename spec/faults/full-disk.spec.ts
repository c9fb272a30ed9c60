import { expect } from 'chai';
import { holdTasks } from '../support/held-tasks.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithSmallDisk, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually, until } from '../support/until.ts';

const LARGE = 2;

/** Waits until the check of the queue's database reports `state`. Calls `before` ahead of each poll. */
async function untilDatabase({ admin }: RunningServices, state: string, before = async () => {}): Promise<void> {
  const { status, body } = await eventually(
    async () => {
      await before();
      return request(`${admin}/readyz`);
    },
    ({ body }) => body.checks.tasks_database.state === state,
  );
  if (state === 'failed') expect([status, body.status]).to.deep.equal([503, 'not ready']);
}

describeWithSmallDisk('a full disk', () => {
  let disk: SmallDisk;
  beforeEach(async () => {
    disk = await mountSmallDisk(64);
  });

  it(`lets the durable queue refuse what it cannot store, and loses no accepted task, even at a stop ${seedNote}`, async () => {
    const { module: TASK_HANDLERS, release } = await holdTasks();
    const env = {
      DATA_DIR: disk.path,
      QUEUE_DRIVER: 'sqlite',
      SHUTDOWN_TIMEOUT_MS: '500',
      TASK_HANDLERS,
      TASK_UNKNOWN_ACTIONS: 'process',
    };
    const services = await startServices({ env });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(2);
    const stopped = ledger.flood(services.tasks, random, 2);
    /** Submits large tasks until a response has the status `wanted`. */
    const answers = (wanted: number) =>
      until(async () => (await ledger.submit(services.tasks, random, LARGE)) === wanted);
    for (let time = 0; time < 2; time++) {
      await ledger.grows(random.below(30));
      disk.fill();
      await answers(500);
      await untilDatabase(services, 'failed', async () => void (await ledger.submit(services.tasks, random, LARGE)));
      expect(await ledger.submit(services.tasks, random, LARGE)).to.equal(500);
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
      await queueCounts(services.tasks);
      await disk.free();
      await untilDatabase(services, 'ok');
      await answers(202);
    }
    await stopped();
    await ledger.settled(services, disk.path);
    await client.checkAfterNextTick();

    const held: string[] = [];
    for (let i = 0; i < 20; i++) held.push((await post(`${services.tasks}/tasks`, { action: 'hold' })).body.id);
    disk.fill();
    expect(await services.end()).to.deep.include({ code: 0 });
    const last = services.lines.find(({ msg }) => msg.startsWith('stopped'));
    expect(last).to.include({ msg: 'stopped', unfinished: 20 });
    await disk.free();
    await release();
    const next = await startServices({ env });
    await ledger.settled(next, disk.path);
    for (const id of held) expect((await request(`${next.tasks}/tasks/${id}`)).body.status, id).to.equal('completed');
  });
});
