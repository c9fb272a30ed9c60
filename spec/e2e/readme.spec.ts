import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { projectFolder, type RunningServices, startServices, watch } from '../support/program.ts';

/** The shell blocks below the README's heading "Try it", as they would be pasted. */
function examples(): string[] {
  const readme = readFileSync(join(projectFolder, 'README.md'), 'utf8');
  const [, section = ''] = readme.split('## Try it');
  return [...(section.split('\n## ')[0] ?? '').matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block as string);
}

/** Pastes a block into a shell, with the ports and the folder of this test in the place of the usual ones. */
function paste(block: string | undefined, { ticker, tasks }: RunningServices, dataDir: string) {
  const text = (block ?? '')
    .replaceAll('localhost:8081', new URL(ticker).host)
    .replaceAll('localhost:8080', new URL(tasks).host)
    .replaceAll('data/auth.db', join(dataDir, 'auth.db'));
  return spawn('bash', ['-c', `set -e\n${text}`], { cwd: projectFolder, detached: true });
}

describe('the examples of the README', () => {
  it('queue a task and list it', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const shell = watch(paste(examples()[0], services, DATA_DIR));
    expect(await shell.exited).to.include({ code: 0 });
    expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\{"tasks":\[/);
  });

  it('show the stream in wscat', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const child = paste(examples()[1], services, DATA_DIR);
    const shell = watch(child);
    await shell.logged(({ type }) => type === 'ticker');
    child.stdin.end('{"type": "ping"}\n');
    await shell.exited;
    expect(shell.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  });
});
