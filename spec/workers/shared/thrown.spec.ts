import { expect } from 'chai';
import { stackOf } from '../../../workers/shared/frames.ts';
import { readThrown } from '../../../workers/shared/thrown.ts';
import { PermanentError, RetryAfter } from '../../../workers/tasks/handlers-api.ts';
import { freePort } from '../../support/free-port.ts';

const refuse = () => {
  throw new Error('no');
};

describe('readThrown', () => {
  it('reads anything that can be thrown', () => {
    for (const [thrown, reason] of [
      ...[[null, 'null'] as const, [undefined, 'undefined'] as const, ['text', 'text'] as const],
      [Symbol('odd'), 'Symbol(odd)'],
      ['x'.repeat(1001), 'x'.repeat(1000)],
      [Object.defineProperty(new Error(), 'message', { get: refuse }), 'an error that cannot be read'],
      [Object.defineProperty(new Error('nameless'), 'name', { get: refuse }), 'nameless'],
      [new Proxy({}, { get: refuse, getPrototypeOf: refuse }), 'an error that cannot be read'],
    ] as const)
      expect(readThrown(thrown).reason).to.equal(reason);
  });

  it('adds the cause, or its code, to the message of a failed fetch, which says nothing, and to no other message', async () => {
    const port = await freePort();
    const failed = await fetch(`http://127.0.0.1:${port}`).catch((error: unknown) => error);
    expect(readThrown(failed).reason).to.equal(`fetch failed: connect ECONNREFUSED 127.0.0.1:${port}`);
    // The cause of a `fetch` from a host name with several addresses.
    const cause = Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' });
    expect(readThrown(new TypeError('fetch failed', { cause })).reason).to.equal('fetch failed: ECONNREFUSED');
    expect(readThrown(new TypeError('fetch failed')).reason).to.equal('fetch failed');
    expect(readThrown(new Error('no stock', { cause: new Error('row 7') })).reason).to.equal('no stock');
  });
});

const HERE = /\(?spec\/workers\/shared\/thrown\.spec\.ts:\d+:\d+\)?$/;

function boom(cause?: unknown): Error {
  return new RangeError('too wide', { cause });
}

describe('the stack of a failed attempt', () => {
  it('has the class of the error and the frames in files of the user, and its causes, each with its own frames', () => {
    const lines = stackOf(boom(boom('no row')))?.split('\n') ?? [];
    expect(lines[0]).to.equal('RangeError');
    for (const first of [1, lines.indexOf('caused by RangeError: too wide') + 1])
      expect(lines[first]).to.match(/^ {4}at boom /);
    expect(lines.at(-1)).to.equal('caused by no row');
    for (const frame of lines.filter((line) => line.startsWith(' '))) expect(frame).to.match(HERE);
  });

  it('shows frames in packages if there are no others', () => {
    const stack = 'Error: x\n    at parse (/app/node_modules/zod/index.js:1:2)\n    at node:internal/timers:5:6';
    const expected = 'ZodError\n    at parse (/app/node_modules/zod/index.js:1:2)';
    expect(stackOf({ name: 'ZodError', stack })).to.equal(expected);
  });

  it('has the errors of an AggregateError, and each cause of a cycle once', async () => {
    const causesOf = (thrown: unknown) => stackOf(thrown)?.match(/^caused by .*/gm);
    const refused = [boom(), Promise.any([Promise.reject(boom())]).catch((error) => error)];
    const aggregate = new AggregateError(await Promise.all(refused), 'all failed');
    const wide = 'caused by RangeError: too wide';
    expect(causesOf(aggregate)).to.deep.equal([wide, 'caused by AggregateError: All promises were rejected', wide]);
    const outer = boom(boom());
    (outer.cause as Error).cause = outer;
    expect(causesOf(outer)).to.deep.equal([wide]);
  });

  it('is absent from an error that was thrown on purpose, unless it has a cause', () => {
    const permanent = { permanent: true };
    expect(stackOf(new PermanentError('bad'), permanent)).to.equal(undefined);
    expect(stackOf(new RetryAfter(5), { retryAfterMs: 5 })).to.equal(undefined);
    const lines = stackOf(new PermanentError('bad', { cause: boom() }), permanent)?.split('\n') ?? [];
    expect(lines.slice(0, 2)).to.deep.equal(['PermanentError', 'caused by RangeError: too wide']);
    expect(lines[2]).to.match(/^ {4}at boom /);
  });

  it('is bounded, whatever the handler throws, and reading it never throws', () => {
    const chain = (message: string) =>
      Array.from({ length: 9 }).reduce<Error>((cause) => new Error(message, { cause }), new Error(message));
    expect(stackOf(chain('it'))?.match(/caused by/g)).to.have.length(5);
    expect(stackOf(chain('long '.repeat(1e5)))).to.match(/^Error\n {4}at .{1987}$/s);
    const stack = `Error: ${' at ('.repeat(1e6)}\n    at /a%.js:1:2`;
    expect(stackOf(Object.assign(new Error('it'), { stack }))).to.equal('Error\n    at /a%.js:1:2');
    const unreadable = new Proxy({}, { get: refuse });
    for (const thrown of [null, undefined, 'text', 5, Symbol('no'), unreadable])
      expect(stackOf(thrown)).to.equal(undefined);
  });
});
