import { availableParallelism } from 'node:os';
import { mock } from 'node:test';
import { expect } from 'chai';
import { POLL_MS } from '../../workers/busy-poll.ts';
import { PermanentError } from '../../workers/handlers-api.ts';
import type { TaskBatch, TaskOutcome } from '../../workers/messages.ts';
import { poolFunction, type TaskHandler } from '../../workers/run-batch.ts';

/** Passes one delivery to the handler's pool function and returns the outcome. */
async function deliver(handler: TaskHandler, body = '{}'): Promise<TaskOutcome> {
  const [outcome] = await poolFunction(handler)(batch(body));
  return outcome as TaskOutcome;
}

function batch(...bodies: string[]): TaskBatch {
  const tasks = bodies.map((body, index) => ({ delivery: index, sequence: index, attempt: 1, body }));
  return { tasks, slot: 0, mayPoll: false };
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
    expect(await poolFunction(handler)({ selfTest: true })).to.deep.equal([]);
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

  it('reports a permanent error', async () => {
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

  it('works the tasks of a batch off one after the other, and keeps them apart', async () => {
    const steps: string[] = [];
    const run = poolFunction(async (body, delivery) => {
      steps.push(`${body} begins`);
      await new Promise(setImmediate);
      steps.push(`${body} ends`);
      if (body === 'a') delivery.ack();
      if (body === 'b') throw new Error('it failed');
    });
    expect(await run(batch('a', 'b', 'c'))).to.deep.equal([
      { ended: 'returned', settled: 'ack' },
      { ended: 'raised', reason: 'it failed', permanent: false },
      { ended: 'returned' },
    ]);
    expect(steps).to.deep.equal(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('stores what the handlers of a batch returned all at once, when the last has ended', async () => {
    const stored: unknown[] = [];
    const run = poolFunction<string>(
      (body) => {
        if (body === 'b') throw new PermanentError('bad data');
        expect(stored).to.deep.equal([]);
        return body.toUpperCase();
      },
      (rows) => {
        stored.push(rows);
        return rows.map(() => undefined);
      },
    );
    expect((await run(batch('a', 'b', 'c'))).map(({ ended }) => ended)).to.deep.equal([
      'returned',
      'raised',
      'returned',
    ]);
    expect(stored).to.deep.equal([['A', 'C']]);
  });

  it('says of each task whether its row was stored', async () => {
    const run = poolFunction<string>(
      (body, { ack }) => {
        if (body === 'a') throw new Error('it failed');
        ack();
        return body;
      },
      (rows) => rows.map((row) => (row === 'b' ? undefined : { error: new Error(`no ${row}`), ofRow: row === 'c' })),
    );
    expect(await run(batch('a', 'b', 'c', 'd'))).to.deep.equal([
      { ended: 'raised', reason: 'it failed', permanent: false },
      { ended: 'returned', settled: 'ack' },
      { ended: 'raised', settled: 'ack', reason: 'no c', permanent: false },
      { ended: 'unstored', settled: 'ack', reason: 'no d' },
    ]);
  });

  it('stores no row of a task that its handler has negatively acknowledged', async () => {
    const stored: string[] = [];
    const store = (rows: readonly string[]) => {
      stored.push(...rows);
      return rows.map(() => undefined);
    };
    const run = poolFunction((body, { ack, nack }) => {
      if (body !== 'none') (body === 'nack' ? nack : ack)();
      return body;
    }, store);
    const outcomes = await run(batch('none', 'nack', 'ack'));
    expect(stored).to.deep.equal(['none', 'ack']);
    expect(outcomes).to.deep.equal([
      { ended: 'returned' },
      { ended: 'returned', settled: 'nack' },
      { ended: 'returned', settled: 'ack' },
    ]);
  });

  describe('between batches', () => {
    let nowMs = 0;
    let turns: (() => void)[] = [];

    beforeEach(() => {
      [nowMs, turns] = [1000, []];
      mock.method(performance, 'now', () => nowMs);
      mock.method(globalThis, 'setImmediate', (callback: () => void) => turns.push(callback));
    });
    afterEach(() => mock.restoreAll());

    it('polls for the next batch only if the last one came soon, and no other batch was running', async () => {
      const run = poolFunction(() => {});
      const pollsAfter = async (pauseMs: number, mayPoll: boolean) => {
        nowMs += pauseMs;
        await run({ ...batch('a'), mayPoll });
        for (const turn of turns.splice(0)) turn();
        return turns.splice(0).length > 0;
      };
      expect(await pollsAfter(0, true)).to.equal(false);
      expect(await pollsAfter(POLL_MS / 2, true)).to.equal(availableParallelism() > 1);
      expect(await pollsAfter(POLL_MS / 2, false)).to.equal(false);
      expect(await pollsAfter(POLL_MS * 2, true)).to.equal(false);
    });
  });
});
