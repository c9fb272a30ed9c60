import { expect } from 'chai';
import { SubmissionThread } from '../../../main/tasks/http/submission-thread.ts';
import type { SubmittedBody } from '../../../workers/submission.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { until } from '../../support/until.ts';

function bodyOf(text: string): SubmittedBody {
  return { bytes: new TextEncoder().encode(text), id: 'x', createdAt: 1, hasKey: false };
}

function start({ file, idleMs }: { file?: string; idleMs?: number } = {}) {
  const captured = captureLog();
  const thread = new SubmissionThread({
    memoryMb: 64,
    ...(idleMs && { idleMs }),
    log: captured.log,
    ...(file && { file: new URL(`../../support/submission-threads/${file}.ts`, import.meta.url) }),
  });
  afterTest(() => thread.stop());
  let started = 0;
  const count = () => {
    started += 1;
  };
  process.on('worker', count);
  afterTest(() => process.off('worker', count));
  /** Parses each body. Returns the results and the messages of errors, as text. */
  const parse = (...texts: string[]) =>
    Promise.all(
      texts.map((text) =>
        thread.parse(bodyOf(text)).then(
          (parsed) => ('text' in parsed ? parsed.text : parsed.error),
          (error: Error) => error.message,
        ),
      ),
    );
  return { ...captured, thread, parse, started: () => started };
}

describe('the submission thread', () => {
  it('parses bodies in order, in one thread that starts with the first', async () => {
    const { parse, started, lines } = start();
    expect(started()).to.equal(0);
    expect(await parse('{"action":"a"}', '{', '{"action":"b"}')).to.deep.equal([
      '{"id":"x","action":"a","data":{},"created_at":1}',
      'invalidJson',
      '{"id":"x","action":"b","data":{},"created_at":1}',
    ]);
    expect(started()).to.equal(1);
    expect(lines).to.deep.equal([]);
  });

  it('ends when it is idle, and starts again with the next body', async () => {
    const { parse, started, lines } = start({ idleMs: 1 });
    expect(await parse('{')).to.deep.equal(['invalidJson']);
    await until(() => !process.getActiveResourcesInfo().includes('MessagePort'));
    expect(await parse('{')).to.deep.equal(['invalidJson']);
    expect(started()).to.equal(2);
    expect(lines).to.deep.equal([]);
  });

  it('takes the buffer of a body over', async () => {
    const { thread } = start();
    const body = bodyOf('{"action":"a"}');
    await thread.parse(body);
    expect(body.bytes.length).to.equal(0);
  });

  it('that dies fails the body that it was parsing, and the next ones go to a new thread', async () => {
    const { parse, started, lines } = start({ file: 'dies-of-zero' });
    expect(await parse('a', '\0', 'abc', '\0', 'ab')).to.deep.equal([
      '1',
      'failed to queue task',
      '3',
      'failed to queue task',
      '2',
    ]);
    expect(started()).to.equal(3);
    expect(lines.map(({ msg }) => msg)).to.deep.equal(Array(2).fill('the submission thread ended'));
  });

  it('that does not start refuses all bodies that wait, and is started again for the next one', async () => {
    const { parse, started, lines } = start({ file: 'never-starts' });
    const busy = Array(3).fill('server busy');
    expect(await parse('a', 'b', 'c')).to.deep.equal(busy);
    expect(started()).to.equal(1);
    expect(await parse('a', 'b', 'c')).to.deep.equal(busy);
    expect(started()).to.equal(2);
    expect(lines).to.have.length(2);
  });

  it('refuses all bodies once it is stopped', async () => {
    const { thread, parse, started, lines } = start();
    const waiting = parse('{"action":"a"}', '{"action":"b"}');
    await thread.stop();
    expect(await waiting).to.deep.equal(['server busy', 'server busy']);
    expect(await parse('{"action":"a"}')).to.deep.equal(['server busy']);
    expect(started()).to.equal(1);
    expect(lines).to.deep.equal([]);
  });
});
