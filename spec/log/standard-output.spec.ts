import { expect } from 'chai';
import { LineBuffer, type StandardOutput } from '../../main/log/standard-output.ts';
import { until } from '../support/until.ts';

const errorOf = (code: string) => Object.assign(new Error(code), { code });

/** Standard output whose writes complete when the test says so. */
class HeldOutput implements StandardOutput {
  #taken: Buffer[] = [];
  #held: (PromiseWithResolvers<number> & { bytes: Buffer }) | undefined;
  closed = 0;

  write(bytes: Buffer): Promise<number> {
    expect(this.#held, 'one write at a time').to.equal(undefined);
    this.#held = { bytes, ...Promise.withResolvers<number>() };
    return this.#held.promise;
  }

  close(): void {
    expect(this.#held, 'no write in progress').to.equal(undefined);
    this.closed += 1;
  }

  get text(): string {
    return Buffer.concat(this.#taken).toString();
  }

  get isWriting(): boolean {
    return this.#held !== undefined;
  }

  /** Takes a part of the write in progress. The next write, if there is one, has begun when the promise is fulfilled. */
  async take(length = Number.POSITIVE_INFINITY): Promise<void> {
    const { bytes, resolve } = this.#release();
    const taken = bytes.subarray(0, length);
    this.#taken.push(taken);
    resolve(taken.length);
    await new Promise(setImmediate);
  }

  async fail(code: string): Promise<void> {
    this.#release().reject(errorOf(code));
    await new Promise(setImmediate);
  }

  #release() {
    const held = this.#held;
    if (held === undefined) throw new Error('no write');
    this.#held = undefined;
    return held;
  }
}

describe('the buffer of log lines', () => {
  const setUp = () => {
    const output = new HeldOutput();
    const lines = new LineBuffer(output, (lost) => lines.write(`lost ${lost}\n`));
    return { output, lines };
  };

  it('writes all lines in order, also if a write accepts only a part', async () => {
    const { output, lines } = setUp();
    for (const line of ['one\n', 'zwei €\n', 'three\n']) lines.write(line);
    while (output.isWriting) await output.take(2);
    expect(output.text).to.equal('one\nzwei €\nthree\n');
    expect(lines.lost).to.equal(0);
  });

  it('retries a write that fails with EAGAIN', async () => {
    const { output, lines } = setUp();
    lines.write('one\n');
    for (let retry = 0; retry < 3; retry++) {
      await output.fail('EAGAIN');
      await until(() => output.isWriting);
    }
    await output.take();
    expect(output.text).to.equal('one\n');
    expect(lines.lost).to.equal(0);
  });

  it('ends a line that an error cut off before it writes the next line', async () => {
    const { output, lines } = setUp();
    lines.write('one\n');
    await output.take(2);
    await output.fail('ENOSPC');
    expect(lines.lost).to.equal(1);
    lines.write('two\n');
    await output.fail('ENOSPC');
    lines.write('three\n');
    while (output.isWriting) await output.take();
    expect(output.text).to.equal('on\nthree\nlost 2\n');
  });

  it('loses the newest lines beyond 8 MiB, and accepts lines again later', async () => {
    const { output, lines } = setUp();
    const line = `${'x'.repeat(1023)}\n`;
    for (let n = 0; n < 10_000; n++) lines.write(line);
    expect(lines.lost).to.equal(10_000 - 8 * 1024);
    while (output.isWriting) await output.take();
    expect(output.text.length - 8 * 1024 * 1024).to.equal(`lost ${lines.lost}\n`.length);
    lines.write('one\n');
    await output.take();
    expect(output.text.endsWith('\none\n')).to.equal(true);
  });

  it('writes its waiting lines at its end, and accepts no more', async () => {
    const { output, lines } = setUp();
    lines.write('one\n');
    lines.write('two\n');
    const ended = lines.end();
    lines.write('three\n');
    while (output.isWriting) await output.take();
    await ended;
    expect([output.text.startsWith('one\ntwo\n'), lines.lost]).to.deep.equal([true, 1]);
    expect(lines.end()).to.equal(ended);
    await lines.end();
    expect(output.closed).to.equal(1);
  });

  it('ends although standard output accepts nothing, and closes it after the write in progress', async () => {
    const { output, lines } = setUp();
    lines.write('one\n');
    lines.write('two\n');
    await lines.end();
    expect([output.closed, output.isWriting]).to.deep.equal([0, true]);
    // The write is not retried after the end.
    await output.fail('EAGAIN');
    await until(() => output.closed === 1);
    expect(output.isWriting).to.equal(false);
  });
});
