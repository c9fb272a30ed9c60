import { mock } from 'node:test';
import { expect } from 'chai';
import { type KeyRecord, publishOnce } from '../../../main/cluster/queue/publish-once.ts';
import { QueueFull } from '../../../main/tasks/queue/queue.ts';
import { MemoryValues } from './memory-values.ts';

const KEY = { key: 'order-1', fingerprint: 'x' };

async function outcome(work: Promise<string>): Promise<string> {
  return work.catch((error: Error) => error.message);
}

describe('the idempotency keys of several nodes', () => {
  beforeEach(() => mock.timers.enable({ apis: ['Date'], now: 1_700_000_000_000 }));
  afterEach(() => mock.timers.reset());

  it('keep a reservation whose end is not known, though a later try is refused', async () => {
    const keys = new MemoryValues<KeyRecord>();
    const stored: string[] = [];
    const lost = async (messageId: string) => {
      stored.push(messageId);
      throw new Error('no answer');
    };
    const refuse = async () => {
      throw new QueueFull('full');
    };
    expect(await outcome(publishOnce(keys, KEY, 'T1', lost))).to.equal('no answer');
    mock.timers.tick(4000);
    expect(await outcome(publishOnce(keys, KEY, 'T2', refuse))).to.equal('full');
    mock.timers.tick(4000);
    const id = await publishOnce(keys, KEY, 'T3', async (messageId, taskId) => {
      stored.push(messageId);
      return taskId;
    });
    expect(stored).to.deep.equal(['T1', 'T1']);
    expect(id).to.equal('T1');
  });

  it('belong to the first task, even if storing it takes several attempts', async () => {
    const keys = new MemoryValues<KeyRecord>();
    const tried: string[] = [];
    for (const id of ['T1', 'T2', 'T3']) {
      await outcome(
        publishOnce(keys, KEY, id, async (_messageId, taskId) => {
          tried.push(taskId);
          throw new Error('no answer');
        }),
      );
      mock.timers.tick(200_000);
    }
    expect(tried).to.deep.equal(['T1', 'T1', 'T1']);
  });

  it('refuse a retry for three seconds while the first submission is in progress', async () => {
    const keys = new MemoryValues<KeyRecord>();
    const [begun, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const first = publishOnce(keys, KEY, 'T1', () => {
      begun.resolve();
      return answer.promise;
    });
    const retry = () => outcome(publishOnce(keys, KEY, 'T2', async (_messageId, taskId) => `${taskId} again`));
    await begun.promise;
    mock.timers.tick(2999);
    expect(await retry()).to.equal('the submission with this idempotency key is under way');
    mock.timers.tick(1);
    expect(await retry()).to.equal('T1 again');
    answer.resolve('T1');
    expect(await first).to.equal('T1');
  });

  it('reserve a key for one of two submissions that come at once', async () => {
    const keys = new MemoryValues<KeyRecord>();
    const stored: string[] = [];
    const take = (id: string) =>
      outcome(
        publishOnce(keys, KEY, id, async (_messageId, taskId) => {
          stored.push(taskId);
          return taskId;
        }),
      );
    const outcomes = await Promise.all([take('T1'), take('T2')]);
    expect(outcomes).to.deep.equal(['T1', 'the submission with this idempotency key is under way']);
    expect(stored).to.deep.equal(['T1']);
  });

  it('forget a first try that was refused', async () => {
    const keys = new MemoryValues<KeyRecord>();
    await outcome(
      publishOnce(keys, KEY, 'T1', async () => {
        throw new QueueFull('full');
      }),
    );
    expect(await publishOnce(keys, KEY, 'T2', async (_messageId, taskId) => taskId)).to.equal('T2');
  });
});
