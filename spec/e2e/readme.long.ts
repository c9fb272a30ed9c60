import { execFile } from 'node:child_process';
import { on } from 'node:events';
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { WebSocket } from 'ws';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { examples } from '../support/examples.ts';
import { projectFolder, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

/** Applies an example whose first line names the file, and whose other lines are a part of its diff. */
function apply(example: string, folder: string): void {
  const [heading = '', ...lines] = example.trimEnd().split('\n');
  const path = join(folder, heading.replace('# ', ''));
  const side = (mark: string) =>
    lines
      .filter((line) => line.startsWith(' ') || line.startsWith(mark))
      .map((line) => line.slice(1))
      .join('\n');
  const source = readFileSync(path, 'utf8');
  expect(source).to.include(side('-'));
  writeFileSync(path, source.replace(side('-'), side('+')));
}

describe('the changes that the README proposes', () => {
  it('add an action and a symbol', async () => {
    const cwd = await temporaryFolder();
    for (const each of ['main', 'workers', 'db', 'www', 'package.json', 'tsconfig.json'])
      cpSync(join(projectFolder, each), join(cwd, each), { recursive: true });
    symlinkSync(join(projectFolder, 'node_modules'), join(cwd, 'node_modules'));
    const changes = examples('README.md', 'Make it yours', 'diff');
    expect(changes).to.have.length(2);
    for (const change of changes) apply(change, cwd);
    await promisify(execFile)('npm', ['run', 'build'], { cwd });
    const services = await startServices({ cwd });
    const { tasks } = services;

    const submission = { action: 'words', data: { text: 'three short words' } };
    await request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify(submission) });
    const { body } = await eventually(
      () => request(`${tasks}/tasks`),
      ({ body }) => body.count === 1,
    );
    expect(JSON.parse(body.tasks[0].result)).to.deep.equal({ output: 3 });

    // A client of the suite would hold the frame to the documented contract, which knows three symbols.
    const headers = { Authorization: `Bearer ${await services.token()}` };
    const socket = new WebSocket(services.stream, { headers });
    afterTest(() => socket.terminate());
    for await (const [frame] of on(socket, 'message')) {
      const { type, data } = JSON.parse(frame);
      if (type !== 'ticker') continue;
      const symbols = data.map(({ symbol }: { symbol: string }) => symbol);
      expect(symbols).to.deep.equal(['BTC-USD', 'ETH-USD', 'SOL-USD', 'LTC-USD']);
      break;
    }
  });
});
