import { constants, existsSync, openSync, readSync } from 'node:fs';
import { mock } from 'node:test';
import { expect } from 'chai';
import { StandardOutput } from '../../main/log/standard-output.ts';
import { fullPipe, namedPipe } from '../support/named-pipe.ts';
import { until } from '../support/until.ts';

const MAX_BYTES = 256 * 1024;
const openForWrites = (path: string) => openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);

describe('standard output', () => {
  it('loses the newest lines beyond the size of its buffer, reports their number once all others are written, and takes lines again', async () => {
    const { path, reader } = await namedPipe();
    const report = (lost: number) => lines.write(`lost ${lost}\n`);
    const lines: StandardOutput = new StandardOutput(report, openForWrites(path), MAX_BYTES);
    const line = `${'x'.repeat(1023)}\n`;
    for (let count = 0; count < 1000; count++) lines.write(line);
    expect(lines.lost).to.equal(1000 - MAX_BYTES / 1024);
    const bytes = Buffer.alloc(1024 * 1024);
    let text = '';
    const untilRead = (end: string) =>
      until(() => {
        try {
          text += bytes.toString('utf8', 0, readSync(reader, bytes));
        } catch (error) {
          expect(error).to.have.property('code', 'EAGAIN');
        }
        return text.endsWith(end);
      });
    await untilRead(`lost ${lines.lost}\n`);
    expect(text.length - MAX_BYTES).to.equal(`lost ${lines.lost}\n`.length);
    lines.write('zwei €\n');
    await untilRead('\nzwei €\n');
    await lines.end();
  });

  it('ends at once if its last write fails', async () => {
    const { path, close } = await namedPipe();
    const lines = new StandardOutput(() => {}, openForWrites(path));
    close();
    lines.write('one\n');
    mock.timers.enable({ apis: ['setTimeout'] });
    await lines.end();
  });

  it('ends although nothing is read, closes its descriptor, and accepts no more', async () => {
    const descriptor = openForWrites(await fullPipe());
    const lines = new StandardOutput(() => {}, descriptor);
    lines.write('one\n');
    const ended = lines.end();
    expect(lines.end()).to.equal(ended);
    lines.write('two\n');
    expect(lines.lost).to.equal(1);
    await ended;
    await until(() => !existsSync(`/proc/self/fd/${descriptor}`));
  });
});
