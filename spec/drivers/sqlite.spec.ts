import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/migrate.ts';
import { DeadLetters } from '../../main/tasks/queue/dead-letters.ts';
import type { MemoryQueue } from '../../main/tasks/queue/memory.ts';
import { openSqliteQueue } from '../../main/tasks/queue/sqlite.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { describeDriver } from './conformance.ts';
import { idsOf, openInbox, publishAll, retry } from './inbox.ts';

const roomy = { maxLength: 1000, maxBytes: 100_000 };

async function freshFile(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  return join(folder, 'queue.db');
}

function open(path: string, deadLetters?: DeadLetters): MemoryQueue {
  const queue = openSqliteQueue(path, roomy, deadLetters);
  afterTest(() => queue.close());
  return queue;
}

describeDriver('the durable queue', async (bounds) => openSqliteQueue(await freshFile(), bounds));

describe('the durable queue, opened again', () => {
  it('delivers what was waiting, in order, and goes on counting', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'abc');
    await (await openInbox(before, 1).next()).ack();
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ accepted: 2, waiting: 2, bytes: before.counts().bytes });
    await publishAll(after, 'd');
    expect(idsOf(await openInbox(after, 5).take(3))).to.deep.equal(['b', 'c', 'd']);
  });

  it('holds a message as soon as its publishing is over, closed or not', async () => {
    const path = await freshFile();
    await publishAll(open(path), 'ab');
    expect(idsOf(await openInbox(open(path), 5).take(2))).to.deep.equal(['a', 'b']);
  });

  it('counts an attempt that the end of the process cut off as a crash, and one that had not begun not at all', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a] = await openInbox(before, 2).take(2);
    await a?.begin();
    const [again, untouched] = await openInbox(open(path), 2).take(2);
    expect(again).to.deep.include({ attempt: 2, crashes: 1 });
    expect(untouched).to.deep.include({ attempt: 1, crashes: 0 });
  });

  it('keeps attempts and crashes, and delivers a retry when it is due', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a, b] = await openInbox(before, 2).take(2);
    await a?.nack(retry(0, true));
    await b?.nack(retry(60_000));
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ waiting: 1, delayed: 1 });
    const delivery = await openInbox(after, 2).next();
    expect(delivery.message.id).to.equal('a');
    expect(delivery).to.deep.include({ attempt: 2, crashes: 1 });
  });

  it('keeps its dead letters, but for those that had to make room', async () => {
    const path = await freshFile();
    const before = open(path, new DeadLetters({ maxLength: 2, maxBytes: 1000 }));
    await publishAll(before, 'abc');
    for (const delivery of await openInbox(before, 3).take(3)) await delivery.nack({ verdict: 'dead', reason: 'no' });
    const letters = before.deadLetters();
    await before.close();
    const after = open(path);
    expect(after.deadLetters()).to.deep.equal(letters);
    expect(letters.map(({ message }) => message.id)).to.deep.equal(['b', 'c']);
    await publishAll(after, 'd');
    expect(after.counts()).to.include({ accepted: 3, dead: 2, waiting: 1 });
  });

  it('does not accept what it cannot write, and goes on when it can again', async () => {
    const path = await freshFile();
    const queue = open(path);
    const other = new DatabaseSync(path);
    afterTest(() => other.close());
    other.exec('BEGIN IMMEDIATE');
    const error = await queue.publish({ id: 'a', body: 'a' }).catch((reason: Error) => reason);
    expect(error).to.be.instanceOf(Error).with.property('message', 'database is locked');
    expect(queue.counts()).to.include({ accepted: 0, waiting: 0, bytes: 0 });
    other.exec('COMMIT');
    await publishAll(queue, 'b');
    expect((await openInbox(queue, 1).next()).message.id).to.equal('b');
  });
});
