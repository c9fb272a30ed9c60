import { randomUUID } from 'node:crypto';
import { mock } from 'node:test';
import { expect } from 'chai';
import { retryPolicy } from '../../main/tasks/dispatch/retry-policy.ts';
import { KeyReused, type TaskEvent } from '../../main/tasks/queue/queue.ts';
import { describeWithNats } from '../support/servers.ts';
import { timeless } from '../support/timeless.ts';
import { until } from '../support/until.ts';
import { discard, idsOf, keyed, lettersOf, openInbox, publishAll, retry } from './inbox.ts';
import { listed, numbered } from './listing.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

/** Short ack wait for specs that disconnect a node. The long one never expires on a busy machine. */
const ackWaitMs = 400;
const longAckWaitMs = 60_000;

/** Opens one queue on two nodes, each with its own connection. */
async function twoNodes(onEvent: (event: TaskEvent) => void = () => {}, ackWaitMs = longAckWaitMs) {
  const [one, other] = [await connection(), await connection()];
  const prefix = ownPrefix(await connection());
  const first = await openNode({ nats: one, prefix, ackWaitMs });
  const second = await openNode({ nats: other, prefix, ackWaitMs, onEvent });
  return { first, second, one, other, prefix };
}

describeWithNats('two nodes with one NATS queue', () => {
  it('share the work, each as much as it asked for', async () => {
    const { first, second } = await twoNodes();
    await publishAll(first, 'abcde');
    const inboxes = [openInbox(first), openInbox(second)];
    const deliveries = (await Promise.all(inboxes.map((inbox) => inbox.take(2)))).flat();
    expect(idsOf(deliveries).sort()).to.deep.equal([...'abcd']);
    await deliveries[0]?.ack();
    expect((await inboxes[0]?.next())?.message.id).to.equal('e');
  });

  it('take a submission with a key once, whichever it comes to', async () => {
    const { first, second } = await twoNodes();
    const key = keyed('key');
    expect(await first.publish({ id: 'a', body: 'a' }, key)).to.equal('a');
    expect(await second.publish({ id: 'b', body: 'b' }, key)).to.equal('a');
    const other = await second.publish({ id: 'c', body: 'c' }, keyed('key', 'y')).catch((error) => error);
    expect(other).to.be.instanceOf(KeyReused);
    expect((await lettersOf(second)).length).to.equal(0);
    const taken = await Promise.allSettled(
      [first, second].map((queue, index) => queue.publish({ id: `d${index}`, body: `d${index}` }, keyed('k', 'z'))),
    );
    expect(taken.map(({ status }) => status)).to.include('fulfilled');
    const [delivery, next] = await openInbox(second).take(2);
    expect(delivery?.message.id).to.equal('a');
    expect(next?.message.body).to.match(/^d[01]$/);
    await until(() => first.counts().accepted === 2);
  });

  it('read on after what no node has sent', async () => {
    const events: TaskEvent[] = [];
    const { first, one, prefix } = await twoNodes((event) => events.push(event));
    for (const odd of [
      '',
      'null',
      '{}',
      '{"events":[null]}',
      '{"events":[{"id":1}]}',
      '{"events":[{"id":"x","event":"y"}]}',
    ]) {
      one.publish(`${prefix}.events`, odd);
    }
    await publishAll(first, 'a');
    await until(() => events.length > 0);
    expect(timeless(events)).to.deep.equal([{ event: 'accepted', id: 'a' }]);
    expect(await first.find('a')).to.deep.include({ state: 'queued' });
  });

  it('know the state of each other’s tasks, and receive every event', async () => {
    const events: TaskEvent[] = [];
    const { first, second } = await twoNodes((event) => events.push(event));
    await publishAll(first, 'a');
    expect(await second.find('a')).to.deep.include({ state: 'queued' });
    const inbox = openInbox(first);
    const delivery = await inbox.next();
    await delivery.markRunning();
    await until(() => events.length === 2);
    expect(await second.find('a')).to.deep.include({ state: 'running', attempt: 1 });
    await delivery.settle(retry(60_000));
    await until(() => events.length === 3);
    expect(await second.find('a')).to.deep.include({ state: 'retrying', attempts: 1, reason: 'it failed' });
    expect(events.map(({ event, id }) => `${event} ${id}`)).to.deep.equal(['accepted a', 'started a', 'retrying a']);
  });

  it('list the tasks of all nodes', async () => {
    const events: TaskEvent[] = [];
    const { first, second } = await twoNodes((event) => events.push(event));
    for (const number of [1, 2, 3, 4]) await first.publish(numbered(number));
    const [one, two] = await openInbox(first).take(2);
    await one?.markRunning();
    await two?.settle(retry(60_000));
    await until(() => events.length === 6);
    const [running] = await listed(second, 'running', 1);
    expect(running).to.include({ payload: numbered(1).body, action: 'sum' });
    expect(running?.progress).to.deep.include({ state: 'running', attempt: 1 });
    expect(running?.progress).to.have.property('startedAt', events.find(({ event }) => event === 'started')?.at);
    const [retrying] = await listed(second, 'retrying', 2);
    expect(retrying?.progress).to.deep.include({ state: 'retrying', attempts: 1, reason: 'it failed' });
    await listed(second, 'queued', 3, 4);
  });

  it('tell the time, but no action, of an event from a node of version 0.1.0', async () => {
    const events: TaskEvent[] = [];
    const { one, prefix } = await twoNodes((event) => events.push(event));
    const before = Date.now();
    one.publish(`${prefix}.events`, JSON.stringify({ node: 'old', events: [{ event: 'completed', id: 'a' }] }));
    await until(() => events.length > 0);
    expect(timeless(events)).to.deep.equal([{ event: 'completed', id: 'a' }]);
    expect(events[0]?.action).to.equal(undefined);
    expect(events[0]?.at).to.be.within(before, Date.now());
  });

  it('see, retry and delete the same dead letters', async () => {
    const { first, second } = await twoNodes();
    await publishAll(first, 'abc');
    const inbox = openInbox(first);
    for (const delivery of await inbox.take(3)) await delivery.settle(discard());
    inbox.stop();
    expect((await lettersOf(second)).map(({ id }) => id)).to.deep.equal([...'abc']);
    expect(await second.find('a')).to.deep.include({ state: 'failed' });
    expect(await second.purge('a')).to.equal(true);
    expect(await first.purge('a')).to.equal(false);
    const revived = await Promise.all([first.redrive('b'), second.redrive('b')]);
    expect(revived).to.include(true);
    expect((await lettersOf(first)).map(({ id }) => id)).to.deep.equal(['c']);
    expect(await openInbox(second).next()).to.deep.include({ attempt: 1, message: { id: 'b', body: 'b' } });
    await until(() => first.counts().inFlight === 1 && second.counts().dead === 1);
    expect(first.counts()).to.include({ waiting: 0, dead: 1 });
  });

  it('count what both do, a second later', async () => {
    const { first, second } = await twoNodes();
    const ids = Array.from('abcd', () => randomUUID());
    await publishAll(first, ids);
    const inbox = openInbox(second);
    const [a, b, c] = await inbox.take(3);
    await a?.ack();
    await b?.settle(discard());
    await c?.settle(retry(60_000));
    await inbox.next();
    const settled = { accepted: 4, completed: 1, dead: 1 };
    await until(() => first.counts().completed === 1 && first.counts().inFlight === 2);
    expect(first.counts()).to.include({ ...settled, waiting: 0 });
    await until(() => second.counts().accepted === 4);
    expect(second.counts()).to.include({ ...settled, inFlight: 1, delayed: 1, waiting: 0, bytes: 2 * 36 });
    expect(first.counts().bytes).to.equal(2 * 36);
  });

  it('count a task once that one returned and the other started', async () => {
    const { first, second } = await twoNodes();
    await publishAll(first, [randomUUID()]);
    const inbox = openInbox(first);
    const delivery = await inbox.next();
    inbox.stop();
    await delivery.settle(retry());
    await (await openInbox(second).next()).markRunning();
    await until(() => first.counts().inFlight === 1);
    expect(first.counts()).to.include({ accepted: 1, waiting: 0, delayed: 0, inFlight: 1 });
  });

  it('keep attempts, crashes and reasons from one to the other', async () => {
    const { first, second } = await twoNodes();
    await publishAll(first, 'a');
    const inbox = openInbox(first);
    await (await inbox.next()).settle(retry(0, 'crash'));
    const again = await inbox.next();
    expect(again).to.include({ attempt: 2, crashes: 1, suspect: false });
    inbox.stop();
    await again.release();
    expect(await openInbox(second).next()).to.include({ attempt: 2, crashes: 1, suspect: false });
  });

  it('take over deliveries that one releases when it closes, not as suspects', async () => {
    const { first, second } = await twoNodes();
    await publishAll(first, 'abc');
    const [a] = await openInbox(first).take(3);
    await a?.markRunning();
    await first.close();
    const deliveries = await openInbox(second).take(3);
    expect(idsOf(deliveries).sort()).to.deep.equal([...'abc']);
    for (const delivery of deliveries) expect(delivery).to.include({ attempt: 1, crashes: 0, suspect: false });
  });
});

describeWithNats('a node with a NATS queue that is cut off', () => {
  it('loses nothing: its deliveries go to another node as suspects, without a counted crash', async () => {
    const { first, second, one } = await twoNodes(undefined, ackWaitMs);
    await publishAll(first, 'abc');
    const [a] = await openInbox(first).take(3);
    await a?.markRunning();
    await one.close();
    const deliveries = await openInbox(second).take(3);
    expect(idsOf(deliveries).sort()).to.deep.equal([...'abc']);
    for (const delivery of deliveries) expect(delivery).to.include({ attempt: 1, crashes: 0, suspect: true });
    for (const delivery of deliveries) await delivery.ack();
    expect(second.counts()).to.include({ waiting: 0, inFlight: 0 });
  });

  it('counts a crash for a running suspect, so that a task that kills nodes is discarded in the end', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const publisher = await openNode({ nats, prefix, ackWaitMs });
    await publishAll(publisher, 'a');
    const seen: object[] = [];
    for (let deaths = 0; deaths <= retryPolicy.maxCrashes; deaths++) {
      const mortal = await connection();
      const node = await openNode({ nats: mortal, prefix, ackWaitMs });
      const delivery = await openInbox(node).next();
      const { attempt, crashes, suspect } = delivery;
      seen.push({ attempt, crashes, suspect });
      await delivery.markRunning();
      await mortal.close();
    }
    expect(seen).to.deep.equal([
      { attempt: 1, crashes: 0, suspect: false },
      { attempt: 1, crashes: 0, suspect: true },
      { attempt: 2, crashes: 1, suspect: true },
    ]);
    expect(await openInbox(publisher).next()).to.include({ crashes: retryPolicy.maxCrashes });
  });

  it('counts no crash for a suspect that only waited', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const publisher = await openNode({ nats, prefix, ackWaitMs });
    await publishAll(publisher, 'a');
    for (let deaths = 0; deaths < 3; deaths++) {
      const mortal = await connection();
      await openInbox(await openNode({ nats: mortal, prefix, ackWaitMs })).next();
      await mortal.close();
    }
    expect(await openInbox(publisher).next()).to.include({ attempt: 1, crashes: 0, suspect: true });
  });

  it('does not overwrite the attempts of another node when it was paused past its ack wait', async () => {
    const prefix = ownPrefix(await connection());
    // No interval timer of this node fires, so it sends no in-progress ack.
    mock.timers.enable({ apis: ['setInterval'] });
    const paused = await openNode({ nats: await connection(), prefix, ackWaitMs }).finally(() => mock.timers.reset());
    await publishAll(paused, 'a');
    const first = openInbox(paused);
    const stale = await first.next();
    first.stop();
    const events: TaskEvent[] = [];
    const onEvent = (event: TaskEvent) => events.push(event);
    const second = await openNode({ nats: await connection(), prefix, ackWaitMs, onEvent });
    const inbox = openInbox(second);
    await (await inbox.next()).settle(retry(0));
    await (await inbox.next()).settle(retry(60_000));
    const progress = await second.find('a');
    expect(progress).to.include({ state: 'retrying', attempts: 2 });
    await stale.settle({ ...retry(0), reason: 'stale' });
    await publishAll(second, 'b');
    expect((await inbox.next()).message.id, 'a is not redelivered').to.equal('b');
    expect(await second.find('a')).to.deep.equal(progress);
    expect(events.filter((event) => 'reason' in event && event.reason === 'stale')).to.deep.equal([]);
  });

  it('gets an error when it cannot settle a task, which another node processes again', async () => {
    const { first, second, one } = await twoNodes(undefined, ackWaitMs);
    await publishAll(first, 'a');
    const delivery = await openInbox(first).next();
    await one.close();
    expect(await delivery.ack().catch((error) => error)).to.be.instanceOf(Error);
    expect((await openInbox(second).next()).message.id).to.equal('a');
  });
});

describeWithNats('a task that takes long', () => {
  it('is delivered once while its node lives, however long it takes', async () => {
    const slowAckWaitMs = 2_000;
    const { first, second } = await twoNodes(undefined, slowAckWaitMs);
    await publishAll(first, 'ab');
    const [a, b] = await openInbox(first).take(2);
    const others = openInbox(second);
    expect(await others.takeReady(2)).to.deep.equal([]);
    await a?.markRunning();
    const begun = performance.now();
    await until(() => performance.now() - begun > 1.5 * slowAckWaitMs);
    expect(await others.takeReady(2)).to.deep.equal([]);
    await a?.ack();
    await b?.ack();
    expect(first.counts()).to.include({ completed: 2, waiting: 0 });
  });
});
