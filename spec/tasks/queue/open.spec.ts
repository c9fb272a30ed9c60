import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { defaults } from '../../../main/config.ts';
import { openQueue } from '../../../main/tasks/queue/open.ts';
import type { OpenQueue } from '../../../main/tasks/queue/queue.ts';
import { discard, idsOf, keyed, lettersOf, openInbox, publishAll, retry } from '../../drivers/inbox.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';

async function freshFolder(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  return folder;
}

const { log, lines } = captureLog();

function open(dataDir: string, driver: 'memory' | 'sqlite' = 'memory'): OpenQueue {
  const opened = openQueue({ ...defaults.queue, driver }, dataDir, log);
  let closed: Promise<boolean> | undefined;
  const close = () => {
    closed ??= opened.close();
    return closed;
  };
  afterTest(close);
  return { ...opened, close };
}

describe('openQueue', () => {
  for (const [before, after] of [
    ['memory', 'memory'],
    ['sqlite', 'sqlite'],
    ['memory', 'sqlite'],
    ['sqlite', 'memory'],
  ] as const) {
    it(`goes on with all that the queue before it held: ${before}, then ${after}`, async () => {
      const folder = await freshFolder();
      const first = open(folder, before);
      await publishAll(first.queue, 'abcdef');
      await first.queue.publish({ id: 'g', body: 'g' }, keyed('k'));
      const inbox = openInbox(first.queue);
      const [a, b, c] = await inbox.take(3);
      inbox.stop();
      await a?.ack();
      await b?.settle(discard());
      await c?.settle(retry(60_000));
      const letters = await lettersOf(first.queue);
      const delayed = await first.queue.find('c');
      expect(delayed).to.deep.include({ state: 'retrying', reason: 'it failed' });
      expect(await first.close()).to.equal(true);

      const second = open(folder, after);
      expect(second.queue.counts()).to.deep.equal({
        accepted: 6,
        completed: 0,
        dead: 1,
        dropped: 0,
        cancelled: 0,
        waiting: 4,
        delayed: 1,
        inFlight: 0,
        bytes: 5 + 'it failed'.length,
      });
      expect(await lettersOf(second.queue)).to.deep.equal(letters);
      expect(await second.queue.find('c')).to.deep.equal(delayed);
      expect(await second.queue.publish({ id: 'h', body: 'h' }, keyed('k'))).to.equal('g');
      expect(idsOf(await openInbox(second.queue).take(4))).to.deep.equal([...'defg']);
    });
  }

  it('takes up once what an in-memory queue has left', async () => {
    const folder = await freshFolder();
    const first = open(folder);
    await publishAll(first.queue, 'ab');
    await first.close();
    const second = open(folder);
    expect(second.queue.counts().waiting).to.equal(2);
    for (const delivery of await openInbox(second.queue).take(2)) await delivery.ack();
    await second.close();
    expect(open(folder).queue.counts()).to.include({ accepted: 0, waiting: 0 });
  });

  it('clears what an in-memory queue has left only before the first delivery', async () => {
    const folder = await freshFolder();
    const first = open(folder);
    await publishAll(first.queue, 'ab');
    await first.close();
    const file = new DatabaseSync(join(folder, 'queue.db'));
    afterTest(() => file.close());
    const stored = () => file.prepare('SELECT id FROM messages ORDER BY id').all();
    const second = open(folder);
    expect(stored()).to.deep.equal([{ id: 'a' }, { id: 'b' }]);
    await openInbox(second.queue).next();
    expect(stored()).to.deep.equal([]);
  });

  it('delivers nothing if what an in-memory queue has left cannot be cleared', async () => {
    const folder = await freshFolder();
    const first = open(folder);
    await publishAll(first.queue, 'a');
    await first.close();
    const second = open(folder);
    const other = new DatabaseSync(join(folder, 'queue.db'));
    other.exec('BEGIN IMMEDIATE');
    expect(() => openInbox(second.queue)).to.throw('database is locked');
    expect(second.queue.counts()).to.include({ waiting: 1, inFlight: 0 });
    other.close();
    expect((await openInbox(second.queue).next()).message.id).to.equal('a');
  });

  it('keeps what a durable queue has left when an in-memory queue opens it and stops without a delivery', async () => {
    const folder = await freshFolder();
    const first = open(folder, 'sqlite');
    await publishAll(first.queue, 'ab');
    await (await openInbox(first.queue).next()).markRunning();
    await first.close();
    await open(folder).close();
    const delivery = await openInbox(open(folder).queue).next();
    expect(delivery).to.deep.include({ message: { id: 'a', body: 'a' }, attempt: 1, crashes: 0, suspect: true });
  });

  it('counts no attempt for released messages', async () => {
    const folder = await freshFolder();
    const first = open(folder);
    await publishAll(first.queue, 'a');
    const delivery = await openInbox(first.queue).next();
    await delivery.markRunning();
    await delivery.release();
    await first.close();
    expect(await openInbox(open(folder).queue).next()).to.include({ attempt: 1, crashes: 0 });
  });

  it('says that nothing was kept when it could not be written down', async () => {
    const folder = await freshFolder();
    const { queue, close } = open(folder);
    await publishAll(queue, 'a');
    renameSync(join(folder, 'queue.db'), join(folder, 'away'));
    lines.length = 0;
    expect(await close()).to.equal(false);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({ level: 50, msg: 'the snapshot of the queue could not be written' });
  });

  it('says that nothing was kept when the file of a durable queue is gone', async () => {
    const folder = await freshFolder();
    const { queue, close } = open(folder, 'sqlite');
    await publishAll(queue, 'a');
    renameSync(join(folder, 'queue.db'), join(folder, 'away'));
    lines.length = 0;
    expect(await close()).to.equal(false);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({ level: 50, msg: 'the last changes of the queue could not be written' });
  });

  it('says that nothing was kept when another file is in its place', async () => {
    const folder = await freshFolder();
    const { queue, close } = open(folder, 'sqlite');
    await publishAll(queue, 'a');
    const delivery = await openInbox(queue).next();
    for (const file of ['queue.db', 'queue.db-wal', 'queue.db-shm']) rmSync(join(folder, file));
    migrate(folder);
    const other = new DatabaseSync(join(folder, 'queue.db'));
    afterTest(() => other.close());
    other.exec('BEGIN IMMEDIATE');
    void delivery.release().catch(() => {});
    expect(await close()).to.equal(false);
  });

  it('says that all tasks of a durable queue were kept when only their last state could not be written', async () => {
    const folder = await freshFolder();
    const { queue, close } = open(folder, 'sqlite');
    await publishAll(queue, 'ab');
    const delivery = await openInbox(queue).next();
    await delivery.markRunning();
    const other = new DatabaseSync(join(folder, 'queue.db'));
    other.exec('BEGIN IMMEDIATE');
    lines.length = 0;
    await delivery.release().catch(() => {});
    expect(await close()).to.equal(true);
    expect(lines.map(({ msg }) => msg)).to.deep.equal(['the last changes of the queue could not be written']);
    other.close();
    expect(idsOf(await openInbox(open(folder).queue).take(2))).to.deep.equal(['a', 'b']);
  });
});
