import { expect } from 'chai';
import type { DispatcherOptions } from '../../../main/tasks/dispatch/dispatcher.ts';
import { startDispatching } from './dispatching.ts';
import { HandDrivenPool, raised, returned } from './hand-driven-pool.ts';

/** Starts a dispatcher whose callbacks the spec ends, and completes a task with a callback for each of these ids. */
async function startSending(ids: string) {
  const sender = new HandDrivenPool();
  const callbacks: DispatcherOptions['callbacks'] = {
    isUsed: true,
    run: (delivery, listener) => sender.run(delivery, { onAcknowledged() {}, onProgress() {}, ...listener }),
    cancel: (delivery) => sender.cancel(delivery),
    stop: () => void sender.stop(Promise.resolve()),
  };
  const dispatching = await startDispatching(new HandDrivenPool(), { callbacks });
  const { queue, pool, reach } = dispatching;
  const publish = async (id: string, callbackUrl?: string) => {
    const body = `{"id":"${id}","action":"sum","data":{},"created_at":1790000000}`;
    await queue.publish({ id, action: 'sum', body, callbackUrl });
  };
  for (const [index, id] of [...ids].entries()) {
    await publish(id, 'https://example.com/');
    (await pool.given(index + 1)).end(returned);
  }
  await reach({ completed: ids.length });
  if (ids !== '') await sender.given(ids.length);
  return { ...dispatching, sender, publish };
}

describe('Dispatcher with callbacks', () => {
  it('gives a thousand of them to the sender beside the window, and others in it', async () => {
    const { sender, pool, publish, reach } = await startSending('');
    for (let count = 1; count <= 1005; count += 1) {
      await publish(`${count}`, 'https://example.com/');
      (await pool.given(count)).end(returned);
    }
    await reach({ completed: 1005, inFlight: 1005 });
    await publish('waits');
    for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
    expect(pool.runs).to.have.length(1005);
    sender.runs.at(-1)?.end(returned);
    expect((await pool.given(1006)).delivery.id).to.equal('waits');
  });

  it('takes them each second while the window is full, and after each one that ends', async () => {
    const { sender, pool, queue, publish, clock } = await startSending('');
    for (const id of '12345') await publish(id);
    await pool.given(5);
    for (const id of 'abc') await publish(id, 'https://example.com/');
    const cancelled = async (id: string) => expect(await queue.cancel(id)).to.equal('cancelled');
    await cancelled('a');
    clock.advance(1000);
    await sender.given(1);
    await cancelled('b');
    await new Promise(setImmediate);
    expect(sender.runs).to.have.length(1);
    clock.advance(1000);
    const { end } = await sender.given(2);
    await cancelled('c');
    end(returned);
    expect((await sender.given(3)).delivery.callbackOf).to.equal('c');
    expect(pool.ids).to.equal('12345');
  });

  it('retries them nine times', async () => {
    const { sender, reach, clock, lines } = await startSending('a');
    for (let attempt = 1; attempt <= 9; attempt += 1) {
      const { delivery, end } = await sender.given(attempt);
      expect(delivery.attempt).to.equal(attempt);
      end({ ...raised, retryAfterMs: 1000 } as typeof raised);
      if (attempt < 9) {
        await reach({ retrying: 1 });
        clock.advance(1000);
      }
    }
    await reach({ dead: 1 });
    expect(lines.filter(({ msg }) => msg === 'task failed')).to.have.length(9);
  });

  it('cancels them at the sender, and releases them at a stop', async () => {
    const { sender, queue, reach, dispatcher, store } = await startSending('ab');
    await queue.cancel(sender.runs[0]?.delivery.id ?? '');
    await reach({ cancelled: 1 });
    await dispatcher.stop(Promise.resolve());
    expect(await store.counts()).to.include({ waiting: 1, inFlight: 0 });
    expect(sender.isStopped).to.equal(true);
  });
});
