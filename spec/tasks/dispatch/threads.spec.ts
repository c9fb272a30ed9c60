import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { BatchRunner } from '../../../main/tasks/pool/batch-runner.ts';
import { WorkerPool } from '../../../main/tasks/pool/worker-pool.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import { lettersOf } from '../../drivers/inbox.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { Gate } from '../../support/task-threads/gate.ts';
import { eventually } from '../../support/until.ts';
import { never, startDispatching } from './dispatching.ts';

/** Starts a dispatcher with two real threads. A task's action names its behaviour. */
async function start({ queued = [] }: { queued?: string[] } = {}) {
  const gate = new Gate();
  const queue = new LocalQueue({ maxLength: 1000, maxBytes: 100_000, maxKeys: 10 });
  const submit = (...actions: string[]) =>
    Promise.all(actions.map((action) => queue.publish({ id: randomUUID(), body: JSON.stringify({ action }) })));
  await submit(...queued);
  const batches = await BatchRunner.start({
    file: new URL('../../support/task-threads/behaviours.ts', import.meta.url),
    threads: 2,
    timeoutMs: 60_000,
    memoryMb: 64,
    workerData: { gate: gate.shared },
    log: captureLog().log,
  });
  const pool = new WorkerPool(batches, 5);
  afterTest(() => pool.stop(Promise.resolve()));
  return { gate, submit, ...startDispatching(pool, { queue }) };
}

describe('Dispatcher, with real threads', () => {
  it('comes to the right end with tasks of every kind', async () => {
    const { queue, submit, dispatcher } = await start();
    await submit('return', 'exit', 'raise for good', 'return later', 'raise null', 'ack, then raise');
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ accepted: 6, completed: 3, dead: 3 });
    const letters = (await lettersOf(queue)).map(({ body, attempts }) => [JSON.parse(body).action, attempts]);
    expect(letters).to.have.deep.members([
      ['raise for good', 1],
      ['exit', 2],
      ['raise null', 5],
    ]);
  });

  it('has two in the threads and five out of the queue', async () => {
    const { queue, submit, gate, dispatcher } = await start();
    await submit(...Array(8).fill('wait'));
    await gate.begun(2);
    expect(queue.counts()).to.include({ inFlight: 5, waiting: 3, completed: 0 });
    gate.open();
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ completed: 8, inFlight: 0 });
  });

  it('moves tasks queued behind a long one to an idle thread, with no attempt counted', async () => {
    const { queue, gate, dispatcher, reach, lines } = await start({
      queued: ['take 100 ms', 'take 100 ms', 'wait', 'return', 'exit'],
    });
    await gate.begun(1);
    // The last task runs, and kills its thread twice, while the third one blocks the other thread.
    await reach(({ dead }) => dead === 1);
    expect(lines.filter(({ failure }) => failure === 'crash').map(({ attempt }) => attempt)).to.deep.equal([1, 2]);
    gate.open();
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ completed: 4, dead: 1 });
  });

  it('settles early, while the handler goes on', async () => {
    const { queue, submit, gate, reach, dispatcher } = await start();
    await submit('ack, then wait');
    await reach(({ completed }) => completed === 1);
    await gate.begun(1);
    gate.open();
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ accepted: 1, completed: 1 });
  });

  it('reports the tasks of a batch as running only once a thread has started them', async () => {
    const { queue, gate, reach, dispatcher } = await start({ queued: ['wait', 'wait', 'return', 'return', 'wait'] });
    await gate.begun(2);
    const states = async () => (await Promise.all(ids.map((id) => queue.find(id)))).map((found) => found?.state);
    const ids = queue.snapshot().messages.map(({ id }) => id);
    await eventually(states, (now) => now.filter((state) => state === 'running').length === 2);
    expect(await states()).to.have.members(['running', 'running', 'queued', 'queued', 'queued']);
    gate.open();
    await dispatcher.drain(never);
    expect(await reach(() => true)).to.include({ completed: 5 });
  });

  it('keeps an acknowledgement although the thread dies after it', async () => {
    const { queue, submit, gate, reach, dispatcher } = await start();
    await submit('ack, then exit');
    await reach(({ completed }) => completed === 1);
    gate.open();
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ completed: 1, dead: 0, delayed: 0, waiting: 0 });
  });

  it('counts no crash for the task beside one that killed its thread', async () => {
    const { queue, submit, gate, reach, lines, dispatcher } = await start();
    await submit('wait', 'exit');
    await reach(({ dead }) => dead === 1);
    gate.open();
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ completed: 1, dead: 1 });
    const [letter] = await lettersOf(queue);
    expect(lines.map(({ task }) => task)).to.deep.equal([letter?.id, letter?.id]);
    expect(letter?.body).to.equal('{"action":"exit"}');
  });

  it('gives back what hangs at the deadline, and leaves no thread', async () => {
    const { queue, submit, gate, dispatcher } = await start();
    await submit('wait', 'wait', 'return');
    await gate.begun(2);
    await dispatcher.stop(Promise.resolve());
    expect(queue.counts()).to.include({ waiting: 3, completed: 0, dead: 0, inFlight: 0 });
  });
});
