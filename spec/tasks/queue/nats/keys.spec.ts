import { mock } from 'node:test';
import { expect } from 'chai';
import { QueueFull } from '../../../../main/tasks/queue/driver.ts';
import { type NatsKeyRecord, NatsKeys } from '../../../../main/tasks/queue/nats/keys.ts';
import type { NatsValues } from '../../../../main/tasks/queue/nats/values.ts';

/** Values that are kept here alone. */
class Kept implements Pick<NatsValues<NatsKeyRecord>, 'get' | 'put' | 'removeRevision'> {
  #value: { value: NatsKeyRecord; revision: number } | undefined;
  #revision = 0;

  async get() {
    return this.#value;
  }

  async put(_name: string, value: NatsKeyRecord) {
    this.#value = { value, revision: ++this.#revision };
    return this.#revision;
  }

  async removeRevision(revision: number) {
    if (this.#value?.revision === revision) this.#value = undefined;
  }
}

const KEY = { key: 'order-1', fingerprint: 'x' };

async function outcome(work: Promise<string>): Promise<string> {
  return work.catch((error: Error) => error.message);
}

describe('the idempotency keys of several nodes', () => {
  beforeEach(() => mock.timers.enable({ apis: ['Date'], now: 1_700_000_000_000 }));
  afterEach(() => mock.timers.reset());

  it('keep a reservation whose end is not known, though a later try is refused', async () => {
    const keys = new NatsKeys(new Kept() as never);
    const stored: string[] = [];
    const lost = async (messageId: string) => {
      stored.push(messageId);
      throw new Error('no answer');
    };
    const refuse = async () => {
      throw new QueueFull('full');
    };
    expect(await outcome(keys.take(KEY, 'T1', lost))).to.equal('no answer');
    mock.timers.tick(4000);
    expect(await outcome(keys.take(KEY, 'T2', refuse))).to.equal('full');
    mock.timers.tick(4000);
    const id = await keys.take(KEY, 'T3', async (messageId, taskId) => {
      stored.push(messageId);
      return taskId;
    });
    expect(stored).to.deep.equal(['T1', 'T1']);
    expect(id).to.equal('T1');
  });

  it('stand for the first task for good, however often its storing has to be tried', async () => {
    const keys = new NatsKeys(new Kept() as never);
    const tried: string[] = [];
    for (const id of ['T1', 'T2', 'T3']) {
      await outcome(
        keys.take(KEY, id, async (_messageId, taskId) => {
          tried.push(taskId);
          throw new Error('no answer');
        }),
      );
      mock.timers.tick(200_000);
    }
    expect(tried).to.deep.equal(['T1', 'T1', 'T1']);
  });

  it('forget a first try that was refused', async () => {
    const keys = new NatsKeys(new Kept() as never);
    await outcome(
      keys.take(KEY, 'T1', async () => {
        throw new QueueFull('full');
      }),
    );
    expect(await keys.take(KEY, 'T2', async (_messageId, taskId) => taskId)).to.equal('T2');
  });
});
