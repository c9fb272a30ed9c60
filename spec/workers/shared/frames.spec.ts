import { expect } from 'chai';
import { stackOf } from '../../../workers/shared/frames.ts';
import { PermanentError, RetryAfter } from '../../../workers/tasks/handlers-api.ts';

const HERE = /\(?spec\/workers\/shared\/frames\.spec\.ts:\d+:\d+\)?$/;

function boom(cause?: unknown): Error {
  return new RangeError('too wide', { cause });
}

describe('the stack of a failed attempt', () => {
  it('has the class of the error and the frames in files of the user, and its causes, each with its own frames', () => {
    const lines = stackOf(boom(boom('no row')))?.split('\n') ?? [];
    const second = lines.indexOf('caused by RangeError: too wide');
    for (const [at, text] of [[0, 'RangeError'] as const, [second, lines[second]] as const]) {
      expect(lines[at]).to.equal(text);
      expect(lines[at + 1]).to.match(/^ {4}at boom /);
    }
    expect(lines.at(-1)).to.equal('caused by no row');
    for (const frame of lines.filter((line) => line.startsWith(' '))) expect(frame).to.match(HERE);
  });

  it('shows frames in packages if there are no others', () => {
    const stack = 'Error: x\n    at parse (/app/node_modules/zod/index.js:1:2)\n    at node:internal/timers:5:6';
    expect(stackOf({ name: 'ZodError', stack })).to.equal(
      'ZodError\n    at parse (/app/node_modules/zod/index.js:1:2)',
    );
  });

  it('has the errors of an AggregateError, and each cause of a cycle once', async () => {
    const causesOf = (thrown: unknown) =>
      stackOf(thrown)
        ?.split('\n')
        .filter((line) => line.startsWith('caused by'));
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
    const later = { retryAfterMs: 5 };
    expect(stackOf(new PermanentError('bad'), permanent)).to.equal(undefined);
    expect(stackOf(new RetryAfter(5), later)).to.equal(undefined);
    const lines = stackOf(new PermanentError('bad', { cause: boom() }), permanent)?.split('\n') ?? [];
    expect(lines.slice(0, 2)).to.deep.equal(['PermanentError', 'caused by RangeError: too wide']);
    expect(lines[2]).to.match(/^ {4}at boom /);
  });

  it('is bounded, whatever the handler throws, and reading it never throws', () => {
    const chain = (message: string) =>
      Array.from({ length: 9 }).reduce<Error>((cause) => new Error(message, { cause }), new Error(message));
    const refusing = {
      get: () => {
        throw new Error('no');
      },
    };
    expect(stackOf(chain('it'))?.match(/caused by/g)).to.have.length(5);
    expect(stackOf(chain('long '.repeat(1e5)))).to.have.length(2000);
    const stack = `Error: ${' at ('.repeat(1e6)}\n    at /a%.js:1:2`;
    expect(stackOf(Object.assign(new Error('it'), { stack }))).to.equal('Error\n    at /a%.js:1:2');
    const unreadable = Object.defineProperties({}, { name: refusing, stack: refusing, cause: refusing });
    for (const thrown of [null, undefined, 'text', 5, Symbol('no'), unreadable])
      expect(stackOf(thrown)).to.equal(undefined);
  });
});
