import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { SubmissionThread, type SubmissionThreadOptions } from '../../../main/tasks/http/submission-thread.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { READY, type SubmittedBody } from '../../../workers/submissions/parse-submission.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { watchThreads } from '../../support/threads.ts';
import { until } from '../../support/until.ts';

function bodyOf(text: string): SubmittedBody {
  return { bytes: new TextEncoder().encode(text), id: 'x', now: 1000, hasKey: false };
}

/** Data whose check takes exponential time. */
const costly = { text: `${'a'.repeat(50)}!` };
const letters = { schema: { properties: { text: { pattern: '^([a-z]+)*$' } } } };
const rules: SubmissionRules = { actions: new Map([['letters', letters]]), rejectUnknown: false };

function start(options: Partial<SubmissionThreadOptions> = {}) {
  const { log, lines } = captureLog();
  const thread = new SubmissionThread({ memoryMb: 64, clock: systemClock, log, ...options });
  afterTest(() => thread.stop());
  const { threads } = watchThreads();
  /** Parses each body. Returns the results and the messages of errors, as text. */
  const parse = (...texts: string[]) => {
    const parsed = texts.map(async (text) => {
      const result = await thread.parse(bodyOf(text));
      return 'message' in result ? result.message.body : result.error;
    });
    return Promise.all(parsed.map((each) => each.catch(({ message }: Error) => message)));
  };
  return { lines, thread, parse, started: () => threads.length };
}

describe('the submission thread', () => {
  it('parses bodies in order, in one thread that starts with the first', async () => {
    const { thread, parse, started, lines } = start();
    expect(started()).to.equal(0);
    expect(await parse('{"action":"a"}', '{', '{"action":"b"}')).to.deep.equal([
      '{"id":"x","action":"a","data":{},"created_at":1}',
      'invalidJson',
      '{"id":"x","action":"b","data":{},"created_at":1}',
    ]);
    expect([started(), lines]).to.deep.equal([1, []]);
    const body = bodyOf('{"action":"a"}');
    await thread.parse(body);
    expect(body.bytes.length, 'the buffer is transferred').to.equal(0);
  });

  it('ends when it is idle, and starts again with the next body', async () => {
    const { parse, started, lines } = start({ idleMs: 1 });
    expect(await parse('{')).to.deep.equal(['invalidJson']);
    await until(() => !process.getActiveResourcesInfo().includes('MessagePort'));
    expect(await parse('{')).to.deep.equal(['invalidJson']);
    expect([started(), lines]).to.deep.equal([2, []]);
  });

  it('that dies fails the body that it was parsing, and the next ones go to a new thread', async () => {
    const file = new URL(`data:text/javascript,import { parentPort } from 'node:worker_threads';
      parentPort.postMessage(${JSON.stringify(READY)});
      parentPort.on('message', ({ bytes }) => {
        if (bytes.every((byte) => byte === 0)) throw new Error('died of zero');
        parentPort.postMessage({ message: { body: String(bytes.length) } });
      });`);
    const { parse, started, lines } = start({ file });
    const failed = 'failed to queue task';
    expect(await parse('a', '\0', 'abc', '\0', 'ab')).to.deep.equal(['1', failed, '3', failed, '2']);
    expect(started()).to.equal(3);
    expect(lines.map(({ msg }) => msg)).to.deep.equal(Array(2).fill('the submission thread ended'));
  });

  it('that does not start refuses all bodies that wait, and is started again for the next one', async () => {
    const { parse, started, lines } = start({ file: new URL('no-such-file.ts', import.meta.url) });
    const busy = Array(3).fill('server busy');
    expect([await parse('a', 'b', 'c'), started()]).to.deep.equal([busy, 1]);
    expect([await parse('a', 'b', 'c'), started()]).to.deep.equal([busy, 2]);
    expect(lines).to.have.length(2);
  });

  it('limits no check that takes linear time', async () => {
    const schema = { properties: { numbers: { items: { type: 'number' } } } };
    const mean = { actions: new Map([['mean', { schema }]]), rejectUnknown: false };
    const { thread, lines } = start({ rules: mean, checkTimeoutMs: 1 });
    const text = JSON.stringify({ action: 'mean', data: { numbers: Array(500_000).fill(1) } });
    expect(await thread.parse(bodyOf(text))).to.have.property('message');
    expect(lines).to.deep.equal([]);
  });

  it('uses a result that has arrived when the main thread notices a time limit, and limits each body once', async () => {
    const posted = new Int32Array(new SharedArrayBuffer(4));
    const file = new URL(`data:text/javascript,import { parentPort, workerData as posted } from 'node:worker_threads';
      parentPort.on('message', ({ bytes }) => {
        for (const checking of ['a', 'b']) parentPort.postMessage({ checking });
        Atomics.wait(posted, 0, 0);
        if (bytes.length === 1) parentPort.postMessage({ error: 'invalidJson' });
        Atomics.store(posted, 0, 2);
        Atomics.notify(posted, 0);
      });`);
    const clock = new ManualClock();
    const { thread, parse, started, lines } = start({ file, rules: posted as unknown as SubmissionRules, clock });
    const block = () => {
      Atomics.store(posted, 0, 1);
      Atomics.notify(posted, 0);
      Atomics.wait(posted, 0, 1);
      clock.advance(2000);
      thread.reload();
    };
    process.once('worker', (worker: Worker) => worker.once('message', () => setImmediate(block)));
    expect(await parse('1', '2')).to.deep.equal(['invalidJson', 'invalidJson']);
    expect([started(), lines, clock.timers]).to.deep.equal([1, [], 1]);
    const endless = parse('endless');
    await until(() => {
      clock.advance(500);
      return lines.length > 0;
    });
    expect(await endless).to.deep.equal(['invalidData']);
    await thread.stop();
    expect(clock.timers).to.equal(0);
  });

  it('can be stopped during a check, or while it starts, and refuses all bodies from then on', async () => {
    const clock = new ManualClock();
    const running = start({ rules, clock });
    const stopped = once(process, 'worker').then(async ([worker]: Worker[]) => {
      const isChecking = Promise.withResolvers<void>();
      worker?.on('message', (message) => 'checking' in Object(message) && isChecking.resolve());
      await isChecking.promise;
      await running.thread.stop();
    });
    expect(await running.parse(JSON.stringify({ action: 'letters', data: costly }))).to.deep.equal(['server busy']);
    await stopped;
    expect(clock.timers).to.equal(0);

    const { thread, parse, started, lines } = start();
    const stoppedEarly = once(process, 'worker').then(() => thread.stop());
    expect(await parse('{"action":"a"}', '{"action":"b"}')).to.deep.equal(['server busy', 'server busy']);
    await stoppedEarly;
    expect([await parse('{"action":"a"}'), started()]).to.deep.equal([['server busy'], 1]);
    expect([...running.lines, ...lines]).to.deep.equal([]);
  });
});
