import { randomUUID } from 'node:crypto';
import { jetstreamManager } from '@nats-io/jetstream';
import { expect } from 'chai';
import { CancellationStore } from '../../main/cluster/queue/cancellation-store.ts';
import type { Queue, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { openLink } from '../support/nats-server.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithNats } from '../support/servers.ts';
import { eventually, until } from '../support/until.ts';
import { discard, idsOf, lettersOf, openInbox, publishAll, type Received, retry } from './inbox.ts';
import { connection, type NodeOptions, openNode, ownPrefix } from './nats-node.ts';

/** Never expires during a test. */
const longAckWaitMs = 60_000;
const shortAckWaitMs = 400;

/** Opens one queue on two nodes, each with its own connection. */
async function twoNodes(options: Partial<NodeOptions> = {}) {
  const nats = await connection();
  const prefix = ownPrefix(nats);
  const [one, other] = [await connection(), await connection()];
  const shared = { prefix, ackWaitMs: longAckWaitMs, ...options };
  const asking = await openNode({ ...shared, nats: one });
  const having = await openNode({ ...shared, nats: other });
  return { asking, having, one, other, nats, prefix };
}

/** Waits until both nodes count the same, and returns the counts. */
async function agreed(...nodes: Queue[]) {
  const [first] = await eventually(
    () => nodes.map((queue) => queue.counts()),
    ([one, ...others]) => others.every((counts) => JSON.stringify(counts) === JSON.stringify(one)),
  );
  return first;
}

/** Records which deliveries a node is asked to cancel. None of them has started if `isWithdrawn`. */
function listen(queue: Queue, isWithdrawn: boolean): string[] {
  const ids: string[] = [];
  queue.onCancel(({ message }) => {
    ids.push(message.id);
    return isWithdrawn;
  });
  return ids;
}

/** UUIDs, for which the bytes in JetStream are counted exactly. */
const [A = '', B = '', C = '', D = ''] = Array.from({ length: 4 }, () => randomUUID());

const nothing = { completed: 0, dead: 0, dropped: 0, cancelled: 0, waiting: 0, delayed: 0, inFlight: 0, bytes: 0 };

describeWithNats('a task of the NATS queue that is cancelled on another node', () => {
  it('waits in the stream: it leaves at once, and the count survives a restart of all nodes', async () => {
    const { asking, having, nats, prefix } = await twoNodes();
    await publishAll(having, [A, B, C]);
    const first = openInbox(having);
    expect((await first.next()).message.id).to.equal(A);
    first.stop();
    expect(await asking.cancel(C)).to.equal('cancelled');
    expect(await having.find(C)).to.equal(undefined);
    expect(await having.cancel(C)).to.equal(undefined);
    await having.close();
    await asking.close();
    const restarted = await openNode({ nats, prefix });
    expect(restarted.counts()).to.include({ accepted: 3, cancelled: 1, completed: 0 });
    const inbox = openInbox(restarted);
    const rest = await inbox.take(2);
    for (const delivery of rest) await delivery.ack();
    expect(idsOf(rest)).to.have.members([A, B]);
    expect(await inbox.takeReady(1)).to.deep.equal([]);
    await until(() => restarted.counts().inFlight === 0);
    expect(restarted.counts()).to.deep.equal({ ...nothing, accepted: 3, completed: 2, cancelled: 1 });
  });

  it('is prefetched: the other node drops it', async () => {
    const { asking, having } = await twoNodes();
    await publishAll(having, [A]);
    const inbox = openInbox(having);
    // Requests the message without taking it.
    await inbox.takeReady(1);
    await until(() => asking.counts().inFlight === 1);
    expect(await asking.cancel(A)).to.equal('cancelled');
    expect(await inbox.takeReady(1)).to.deep.equal([]);
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 1, cancelled: 1 });
  });

  it('is in flight and not started: the other node withdraws it', async () => {
    const { asking, having } = await twoNodes();
    const asked = listen(having, true);
    await publishAll(having, [A]);
    const delivery = await openInbox(having).next();
    expect(await asking.cancel(A)).to.equal('cancelled');
    expect(asked).to.deep.equal([A]);
    await delivery.ack();
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 1, cancelled: 1 });
  });

  it('is running: the other node aborts it, and tells of its end', async () => {
    const events: TaskEvent[] = [];
    const { asking, having } = await twoNodes({ onEvent: (event) => events.push(event) });
    const asked = listen(having, false);
    await publishAll(having, [A, B]);
    const [a, b] = await openInbox(having).take(2);
    await a?.markRunning();
    await b?.markRunning();
    expect(await asking.cancel(A)).to.equal('running');
    expect(await asking.cancel(B)).to.equal('running');
    expect(asked).to.deep.equal([A, B]);
    await a?.settle({ kind: 'cancel' });
    await b?.ack();
    expect(await asking.find(A)).to.equal(undefined);
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 2, completed: 1, cancelled: 1 });
    await until(() => events.filter(({ event }) => event === 'cancelled').length === 2);
  });

  it('is delayed: it is not delivered again, though the node that delayed it has closed', async () => {
    const { asking, having } = await twoNodes({ ackWaitMs: shortAckWaitMs });
    await publishAll(having, [A, B]);
    const inbox = openInbox(having);
    for (const delivery of await inbox.take(2)) await delivery.settle(retry(60_000));
    expect(await asking.cancel(A)).to.equal('cancelled');
    await having.close();
    expect(await asking.cancel(B)).to.equal('cancelled');
    await until(() => asking.counts().delayed + asking.counts().inFlight === 0);
    expect(asking.counts()).to.deep.equal({ ...nothing, accepted: 2, cancelled: 2 });
  });

  it('is delayed: the node that delayed it stops counting it', async () => {
    const { asking, having } = await twoNodes();
    await publishAll(having, [A, B]);
    for (const delivery of await openInbox(having).take(2)) await delivery.settle(retry(3_600_000));
    expect(having.counts()).to.include({ delayed: 2 });
    expect(await asking.cancel(A)).to.equal('cancelled');
    await until(() => having.counts().delayed === 1);
    expect(await having.cancel(B)).to.equal('cancelled');
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 2, cancelled: 2 });
  });

  it('is delayed: the node that delayed it stops counting it, though it missed the event', async () => {
    const { having, nats, prefix } = await twoNodes({ ackWaitMs: shortAckWaitMs, holdMs: 300 });
    await publishAll(having, [A, B]);
    for (const delivery of await openInbox(having).take(2)) await delivery.settle(retry(3_600_000));
    for (const sequence of ['2', '1'])
      expect((await nats.request(`${prefix}.cancel`, sequence)).string()).to.equal('delayed');
    // Another node cancels one of the two tasks without an event.
    await new CancellationStore(await openLink(nats, prefix), 'cancelled').add(A, 1);
    await (await jetstreamManager(nats)).streams.deleteMessage(`${prefix}-tasks`, 1, false);
    const counts = await eventually(
      () => having.counts(),
      ({ delayed, waiting }) => delayed < 2 && waiting === 0,
    );
    expect(counts).to.include({ accepted: 2, cancelled: 1, delayed: 1, inFlight: 0 });
  });

  it('is due for a retry, but no node has room for it: it is deleted', async () => {
    const { asking, having } = await twoNodes();
    await publishAll(having, [A]);
    const delivery = await openInbox(having).next();
    await delivery.markRunning();
    await delivery.settle(retry(0));
    expect(await asking.cancel(A)).to.equal('cancelled');
    expect(await openInbox(asking).takeReady(1)).to.deep.equal([]);
    await until(() => having.counts().inFlight === 0);
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 1, cancelled: 1 });
  });

  it('was delivered to a node that died: it is cancelled when its ack wait has passed', async () => {
    const { asking, having, other } = await twoNodes({ ackWaitMs: shortAckWaitMs });
    await publishAll(having, [A]);
    await (await openInbox(having).next()).markRunning();
    await other.close();
    expect(await asking.cancel(A)).to.equal('cancelled');
    await publishAll(asking, [B]);
    expect((await openInbox(asking).next()).message.id).to.equal(B);
    await until(() => asking.counts().completed === 0 && asking.counts().inFlight === 1);
    expect(asking.counts()).to.include({ accepted: 2, cancelled: 1, waiting: 0 });
  });

  it('is completed or dead-lettered: it is not cancelled', async () => {
    const { asking, having } = await twoNodes();
    await publishAll(having, [A, B, C]);
    const [a, b, c] = await openInbox(having).take(3);
    const acked = a?.ack();
    expect(await asking.cancel(A)).to.equal(undefined);
    await acked;
    await b?.settle(discard());
    expect(await asking.cancel(B)).to.equal(undefined);
    expect(await asking.find(B)).to.include({ state: 'failed' });
    await c?.ack();
    expect(await agreed(asking, having)).to.deep.equal({ ...nothing, accepted: 3, completed: 2, dead: 1 });
  });
});

describeWithNats('a cancelled task of the NATS queue', () => {
  it('is not started by a node that was asked about it, which then finds its cancellation', async () => {
    const { asking, having, nats, prefix } = await twoNodes({ holdMs: 1500 });
    await publishAll(having, [A, B]);
    const inbox = openInbox(having);
    // A node asks, records the cancellation, and dies before it can delete the message.
    nats.publish(`${prefix}.cancel`, '1');
    await nats.flush();
    const taken = await eventually(
      () => inbox.takeReady(2),
      ({ length }) => length > 0,
    );
    expect(idsOf(taken)).to.deep.equal([B]);
    await new CancellationStore(await openLink(nats, prefix), 'cancelled').add(A, 1);
    expect(await agreed(asking, having)).to.include({ accepted: 2 });
    await until(() => having.counts().cancelled === 1 && having.counts().waiting === 0);
    expect(await inbox.takeReady(1)).to.deep.equal([]);
    expect(await agreed(asking, having)).to.deep.equal({
      ...nothing,
      accepted: 2,
      cancelled: 1,
      inFlight: 1,
      bytes: 36,
    });
  });

  it('is started after a while by a node that was asked about it, if nothing follows', async () => {
    const { having, nats, prefix } = await twoNodes({ holdMs: 300 });
    await publishAll(having, [A]);
    nats.publish(`${prefix}.cancel`, '1');
    await nats.flush();
    expect(await openInbox(having).next()).to.include({ attempt: 1, suspect: false });
    nats.publish(`${prefix}.cancel`, 'x');
  });

  it('is terminated when it is redelivered', async () => {
    const { asking, having, other, nats, prefix } = await twoNodes({ ackWaitMs: shortAckWaitMs });
    await publishAll(having, [A]);
    await openInbox(having).next();
    await new CancellationStore(await openLink(nats, prefix), 'cancelled').add(A, 1);
    await other.close();
    const inbox = openInbox(asking);
    expect(await inbox.takeReady(1)).to.deep.equal([]);
    const { streams } = await jetstreamManager(nats);
    await eventually(
      () => streams.info(`${prefix}-tasks`),
      ({ state }) => state.messages === 0,
    );
    expect(await inbox.takeReady(1)).to.deep.equal([]);
    await until(() => asking.counts().cancelled === 1);
    expect(asking.counts()).to.deep.equal({ ...nothing, accepted: 1, cancelled: 1 });
  });

  it('takes every settlement of a node that still has it, and does not come back', async () => {
    const { having, nats, prefix } = await twoNodes();
    await publishAll(having, [A, B, C, D]);
    const [a, b, c, d] = await openInbox(having).take(4);
    // Another node has cancelled the tasks, because this node did not answer for an ack wait.
    const { streams } = await jetstreamManager(nats);
    const cancellations = new CancellationStore(await openLink(nats, prefix), 'cancelled');
    for (const [index, id] of [A, B, C, D].entries()) {
      await cancellations.add(id, index + 1);
      await streams.deleteMessage(`${prefix}-tasks`, index + 1, false);
    }
    await a?.ack();
    await b?.settle(retry());
    await c?.settle({ kind: 'cancel' });
    await d?.settle(discard());
    expect((await streams.info(`${prefix}-tasks`)).state.messages).to.equal(0);
    expect(await lettersOf(having)).to.deep.equal([]);
    await until(() => having.counts().cancelled === 4);
    expect(having.counts()).to.deep.equal({ ...nothing, accepted: 4, cancelled: 4 });
  });

  it('is reported once, though its node did not learn that the cancellation was stored', async () => {
    const events: TaskEvent[] = [];
    const { asking, having, nats, prefix } = await twoNodes({ onEvent: (event) => events.push(event) });
    const countOf = (kind: string, id: string) => events.filter((each) => each.event === kind && each.id === id).length;
    const cancellations = new CancellationStore(await openLink(nats, prefix), 'cancelled');
    await publishAll(having, [A, B, D]);
    const inbox = openInbox(having);
    const [, b, d] = await inbox.take(3);
    inbox.stop();
    await cancellations.add(A, 1);
    await cancellations.add(B, 2);
    await cancellations.add(D, 3);
    listen(having, true);
    expect(await asking.cancel(A)).to.equal('cancelled');
    await until(() => countOf('cancelled', A) === 2);
    await d?.settle(discard());
    await until(() => countOf('cancelled', D) === 2);
    // The node that gets the redelivery finds the cancellation.
    await b?.settle(retry());
    expect(await openInbox(asking).takeReady(1)).to.deep.equal([]);
    await until(() => countOf('cancelled', B) === 2);
    const repeated = [A, B, D].map((id) => ({ event: 'cancelled', id }));
    nats.publish(`${prefix}.events`, JSON.stringify({ node: 'x', events: [...repeated, { event: 'failed', id: C }] }));
    await until(() => countOf('failed', C) === 2);
    expect([A, B, D].map((id) => countOf('cancelled', id))).to.deep.equal([2, 2, 2]);
  });

  it('is not half cancelled by a node without NATS', async () => {
    const { asking, having, one } = await twoNodes();
    await publishAll(having, [A]);
    await one.close();
    const error = await asking.cancel(A).catch((error) => error);
    expect(error).to.be.instanceOf(Error).with.property('message', 'NATS cannot be reached');
    expect(await having.find(A)).to.deep.include({ state: 'queued' });
    expect((await openInbox(having).next()).message.id).to.equal(A);
    expect(having.counts()).to.include({ accepted: 1, cancelled: 0, inFlight: 1 });
  });
});

describeWithNats('progress in the NATS queue', () => {
  it('is known on every node, in messages that older versions can do without', async () => {
    const events: TaskEvent[] = [];
    const { asking, having, nats, prefix } = await twoNodes({ onEvent: (event) => events.push(event) });
    const messages: string[][] = [];
    nats.subscribe(`${prefix}.events`, {
      callback: (_, message) => {
        messages.push(message.json<{ events: TaskEvent[] }>().events.map(({ event }) => event));
      },
    });
    await nats.flush();
    await publishAll(having, [A]);
    const { delivery, markRunning, ack } = await openInbox(having).next();
    await markRunning();
    having.reportProgress(delivery, { fraction: 0.5, note: 'half' });
    having.reportProgress(delivery, { fraction: 0.75 });
    await until(() => events.filter(({ event }) => event === 'progress').length === 4);
    expect(await asking.find(A)).to.deep.include({ state: 'running', attempt: 1, progress: { fraction: 0.75 } });
    having.reportProgress(delivery, { fraction: 1 });
    await ack();
    await until(() => messages.flat().includes('completed'));
    expect(messages.flat()).to.deep.equal(['accepted', 'started', 'progress', 'progress', 'progress', 'completed']);
    for (const kinds of messages) expect(new Set(kinds.map((kind) => kind === 'progress')).size).to.equal(1);
    expect(await asking.find(A)).to.equal(undefined);
  });
});

/** Takes tasks that run for a while and then store a row, unless they are cancelled. Returns the ids of the rows. */
function work(queue: Queue, below: (bound: number) => number, isOver: () => boolean) {
  const rows: string[] = [];
  const started = new Set<string>();
  const aborted = new Set<string>();
  const withdrawn = new Set<string>();
  const turns = async (count: number) => {
    for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
  };
  const run = async (delivery: Received) => {
    const { id } = delivery.message;
    await turns(below(20));
    if (withdrawn.has(id)) return;
    started.add(id);
    await delivery.markRunning();
    await turns(below(20));
    if (aborted.has(id) && below(2) === 0) return delivery.settle({ kind: 'cancel' });
    if (below(4) === 0) {
      started.delete(id);
      return delivery.settle(retry(below(20)));
    }
    rows.push(id);
    await delivery.ack();
  };
  queue.onCancel(({ message: { id } }) => {
    if (started.has(id)) aborted.add(id);
    else withdrawn.add(id);
    return !started.has(id);
  });
  const inbox = openInbox(queue);
  const done = (async () => {
    while (!isOver()) {
      await Promise.all((await inbox.takeReady(4)).map(run));
      await new Promise(setImmediate);
    }
  })();
  return { rows, done };
}

describeWithNats('tasks of the NATS queue that are cancelled while nodes complete them', () => {
  it(`each have a row or are cancelled, never both, and are all counted ${seedNote}`, async function () {
    this.timeout(60_000);
    const { asking, having, nats, prefix } = await twoNodes({ holdMs: 3000 });
    const { below, pick } = randomFrom(17);
    const third = await openNode({ nats, prefix, ackWaitMs: longAckWaitMs, holdMs: 3000 });
    let over = false;
    const nodes = [having, third].map((queue) => work(queue, below, () => over));
    const ids = Array.from({ length: 200 }, () => randomUUID());
    const cancelled: string[] = [];
    let running = 0;
    const cancel = async (id: string) => {
      for (let wait = below(60); wait > 0; wait--) await new Promise(setImmediate);
      const result = await pick([asking, having, third]).cancel(id);
      if (result === 'cancelled') cancelled.push(id);
      if (result === 'running') running += 1;
    };
    const cancelling: Promise<void>[] = [];
    for (const id of ids) {
      await asking.publish({ id, body: id });
      if (below(2) === 0) cancelling.push(cancel(id));
    }
    await Promise.all(cancelling);
    const unsettled = () => {
      const { waiting, delayed, inFlight } = asking.counts();
      return waiting + delayed + inFlight;
    };
    await until(() => asking.counts().accepted === ids.length && unsettled() === 0);
    over = true;
    await Promise.all(nodes.map(({ done }) => done));
    const rows = nodes.flatMap((node) => node.rows);
    expect(new Set(rows).size, 'rows of one task').to.equal(rows.length);
    expect(cancelled.filter((id) => rows.includes(id))).to.deep.equal([]);
    const counts = await agreed(asking, having, third);
    expect(counts).to.deep.equal({
      ...nothing,
      accepted: ids.length,
      completed: rows.length,
      cancelled: ids.length - rows.length,
    });
    const byHandler = ids.length - rows.length - cancelled.length;
    expect(byHandler, 'tasks whose handler was aborted').to.be.within(0, running);
    for (const id of ids) expect(await asking.find(id)).to.equal(undefined);
  });
});
