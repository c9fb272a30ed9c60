import { expect } from 'chai';
import { PermanentError } from '../../workers/actions.ts';
import type { TaskOutcome } from '../../workers/messages.ts';
import { poolFunction, type TaskHandler } from '../../workers/task-handler.ts';

/** What a handler's pool function answers to one delivery. */
function deliver(handler: TaskHandler, body = '{}'): Promise<TaskOutcome> {
  return poolFunction(handler)({ delivery: 1, arrival: null, slot: 0, body });
}

describe('poolFunction', () => {
  it('gives the handler the message text', async () => {
    const bodies: string[] = [];
    await deliver((body) => void bodies.push(body), '{"id": "a"}');
    expect(bodies).to.deep.equal(['{"id": "a"}']);
  });

  it('answers the self-test without the handler', async () => {
    const handler = () => {
      throw new Error('it was called');
    };
    expect(await poolFunction(handler)({ selfTest: true })).to.deep.equal({ ended: 'returned' });
  });

  it('says how the handler ended, at once or later', async () => {
    const raised = { ended: 'raised', reason: 'it failed', permanent: false };
    expect(await deliver(() => {})).to.deep.equal({ ended: 'returned' });
    expect(await deliver(() => Promise.resolve())).to.deep.equal({ ended: 'returned' });
    expect(await deliver(() => Promise.reject(new Error('it failed')))).to.deep.equal(raised);
    expect(
      await deliver(() => {
        throw new Error('it failed');
      }),
    ).to.deep.equal(raised);
  });

  it('tells an error that is for good', async () => {
    expect(await deliver(() => Promise.reject(new PermanentError('bad data')))).to.deep.equal({
      ended: 'raised',
      reason: 'bad data',
      permanent: true,
    });
  });

  it('never throws and says something that can be sent, whatever was thrown', async () => {
    const thrown = [null, undefined, '', 0, false, Symbol('odd'), 10n, {}, [], () => {}, Object.create(null)];
    const unreadable = Object.defineProperty(new Error(), 'message', {
      get() {
        throw new Error('no message');
      },
    });
    for (const value of [...thrown, unreadable, Object.assign(new Error(), { message: () => {} })]) {
      const outcome = await deliver(() => Promise.reject(value));
      expect(outcome).to.include({ ended: 'raised', permanent: false });
      expect(outcome).to.have.property('reason').that.is.a('string');
    }
  });

  it('takes the first settlement of a delivery, and says which it was', async () => {
    expect(
      await deliver((_body, { ack, nack }) =>
        [ack, nack, ack].forEach((settle) => {
          settle();
        }),
      ),
    ).to.deep.equal({
      ended: 'returned',
      settled: 'ack',
    });
    expect(
      await deliver((_body, delivery) => {
        delivery.nack();
        delivery.ack();
        throw new Error('it failed');
      }),
    ).to.deep.equal({ ended: 'raised', settled: 'nack', reason: 'it failed', permanent: false });
  });

  it('keeps deliveries that overlap apart', async () => {
    const run = poolFunction(async (body, delivery) => {
      await new Promise(setImmediate);
      if (body === 'a') delivery.ack();
    });
    const outcomes = await Promise.all([
      run({ delivery: 1, arrival: null, slot: 0, body: 'a' }),
      run({ delivery: 2, arrival: null, slot: 0, body: 'b' }),
    ]);
    expect(outcomes).to.deep.equal([{ ended: 'returned', settled: 'ack' }, { ended: 'returned' }]);
  });
});
