import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { LocalQueue } from '../../main/tasks/queue/local-queue.ts';
import { SqliteJournal } from '../../main/tasks/queue/sqlite-journal.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { until } from '../support/until.ts';
import { openInbox, publishAll } from './inbox.ts';

const TASKS = 40;
const bounds = { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 };

/** Opens a durable queue with all of its tasks in flight, and a disk whose sync can fail. */
async function start() {
  const folder = await temporaryFolder();
  migrate(folder);
  const path = join(folder, 'queue.db');
  const disk = { fails: false, syncs: 0 };
  const rowsOnDisk = async () => {
    disk.syncs += 1;
    if (disk.fails) throw new Error('EMFILE: too many open files');
  };
  const journal = new SqliteJournal(path, rowsOnDisk);
  const queue = new LocalQueue(bounds, { journal });
  afterTest(() => queue.close());
  await publishAll(
    queue,
    Array.from({ length: TASKS }, (_, index) => `task-${index}`),
  );
  const deliveries = await openInbox(queue).take(TASKS);
  const beside = new DatabaseSync(path);
  afterTest(() => beside.close());
  const running = () => beside.prepare('SELECT count(*) AS n FROM messages WHERE running = 1').get()?.n;
  /** Acks every task and returns the errors. */
  const ackAll = async () => {
    const acks = await Promise.allSettled(deliveries.map((delivery) => delivery.ack()));
    return acks.flatMap((ack) => (ack.status === 'rejected' ? [ack.reason.message] : []));
  };
  return { disk, journal, queue, running, ackAll };
}

describe('the durable queue, when a sync of the rows fails', () => {
  it('retries the sync automatically, and then deletes all completed tasks from the file', async () => {
    const { disk, running, ackAll } = await start();
    disk.fails = true;
    expect(await ackAll()).to.deep.equal(Array(TASKS).fill('EMFILE: too many open files'));
    expect(running()).to.equal(TASKS);
    disk.fails = false;
    await until(() => running() === 0);
  });

  it('deletes no task before a sync has succeeded, however many fail', async () => {
    const { disk, running, ackAll } = await start();
    disk.fails = true;
    await ackAll();
    const failed = disk.syncs;
    await until(() => disk.syncs >= failed + 2);
    expect(running()).to.equal(TASKS);
    disk.fails = false;
    await until(() => running() === 0);
  });

  it('reports the completed tasks and the reason until a sync succeeds', async () => {
    const { disk, journal, ackAll } = await start();
    expect(journal.unsynced().tasks).to.equal(0);
    disk.fails = true;
    await ackAll();
    expect(journal.unsynced()).to.deep.equal({ tasks: TASKS, reason: 'EMFILE: too many open files' });
    disk.fails = false;
    await until(() => journal.unsynced().tasks === 0);
  });

  it('retries the sync when the queue is closed', async () => {
    const { disk, queue, running, ackAll } = await start();
    disk.fails = true;
    await ackAll();
    disk.fails = false;
    await queue.close();
    expect(running()).to.equal(0);
  });

  it('closes in order while the sync still fails, and leaves the tasks to the next start', async () => {
    const { disk, queue, running, ackAll } = await start();
    disk.fails = true;
    await ackAll();
    await queue.close();
    expect(running()).to.equal(TASKS);
  });
});
