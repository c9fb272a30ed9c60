import { spawn } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { projectFolder, request, watch } from '../../support/program.ts';
import { eventually } from '../../support/until.ts';

/** Starts the program of the guide, exactly as printed but for its port, in a folder with the packages that it imports. */
async function startExample(port: number) {
  const folder = await temporaryFolder();
  const installed = join(folder, 'node_modules/ticker-and-tasks');
  await mkdir(installed, { recursive: true });
  await writeFile(join(installed, 'package.json'), '{"type": "module", "exports": "./index.js"}');
  const api = new URL('../../../main/embed.ts', import.meta.url).href;
  await writeFile(join(installed, 'index.js'), `export * from ${JSON.stringify(api)};`);
  await symlink(join(projectFolder, 'node_modules/koa'), join(folder, 'node_modules/koa'));
  const [example = ''] = examples('www/guide/embedding.md', 'Without HTTP', 'js');
  await writeFile(join(folder, 'program.mjs'), example.replace('3000', String(port)));
  const program = watch(spawn(process.execPath, ['program.mjs'], { cwd: folder }));
  afterTest(() => program.child.kill('SIGKILL'));
  return program;
}

describe('the guide on embedding', () => {
  it('has a program that answers with a result and a price, and has no other listener', async () => {
    const port = await freePort();
    const program = await startExample(port);
    const ask = () => request(`http://127.0.0.1:${port}/hello`).catch(() => undefined);
    const answer = await eventually(ask, (found) => found?.body.prices?.length === 1);
    expect(answer?.body).to.deep.include({ output: 'HELLO' });
    expect(answer?.body.prices[0].symbol).to.equal('BTC-USD');
    program.child.kill('SIGTERM');
    expect(await program.exited, program.errors()).to.deep.equal({ code: 0, signal: null });
  });
});
