import { expect } from 'chai';
import { WorkerPool } from '../../main/tasks/worker-pool.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { Gate } from '../support/task-threads/gate.ts';
import { startDispatching } from './dispatching.ts';

/** A dispatcher over two real threads that do what the action of a task says. */
async function start() {
  const gate = new Gate();
  const pool = await WorkerPool.start({
    file: new URL('../support/task-threads/behaviours.ts', import.meta.url),
    threads: 2,
    maxBatch: 3,
    timeoutMs: 10_000,
    memoryMb: 64,
    workerData: { gate: gate.shared },
    log: captureLog().log,
  });
  afterTest(() => pool.destroy());
  const { queue, ...rest } = startDispatching(pool);
  const submit = (...actions: string[]) =>
    Promise.all(actions.map((action) => queue.publish({ id: action, body: JSON.stringify({ action }) })));
  return { gate, queue, submit, ...rest };
}

const never = new Promise<void>(() => {});

describe('Dispatcher, with real threads', () => {
  it('comes to the right end with tasks of every kind', async () => {
    const { queue, submit, dispatcher } = await start();
    await submit('return', 'exit', 'raise for good', 'return later', 'raise null', 'ack, then raise');
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ accepted: 6, completed: 3, dead: 3 });
    const letters = (await queue.deadLetters()).map(({ id, attempts }) => [id, attempts]);
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

  it('settles early, while the handler goes on', async () => {
    const { queue, submit, gate, reach, dispatcher } = await start();
    await submit('ack, then wait');
    await reach(({ completed }) => completed === 1);
    await gate.begun(1);
    gate.open();
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ accepted: 1, completed: 1 });
  });

  it('keeps an acknowledgement although the thread dies after it', async () => {
    const { queue, submit, gate, reach, dispatcher } = await start();
    await submit('ack, then exit');
    await reach(({ completed }) => completed === 1);
    gate.open();
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ completed: 1, dead: 0, delayed: 0, waiting: 0 });
  });

  it('does not blame the task that ran beside one that killed its thread', async () => {
    const { queue, submit, gate, reach, lines, dispatcher } = await start();
    await submit('wait', 'exit');
    await reach(({ dead }) => dead === 1);
    gate.open();
    await dispatcher.drain(never);
    expect(queue.counts()).to.include({ completed: 1, dead: 1 });
    expect(lines.map(({ task }) => task)).to.deep.equal(['exit', 'exit']);
  });

  it('gives back what hangs at the deadline, and leaves no thread', async () => {
    const { queue, submit, gate, dispatcher } = await start();
    await submit('wait', 'wait', 'return');
    await gate.begun(2);
    await dispatcher.stop(Promise.resolve());
    expect(queue.counts()).to.include({ waiting: 3, completed: 0, dead: 0, inFlight: 0 });
  });
});
