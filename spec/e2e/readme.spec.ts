import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { projectFolder, type RunningServices, startServices, watch } from '../support/program.ts';

/** The shell blocks below a heading of the README, as they would be pasted. */
function examples(heading: string): string[] {
  const readme = readFileSync(join(projectFolder, 'README.md'), 'utf8');
  const [, section = ''] = readme.split(`## ${heading}`);
  return [...(section.split('\n## ')[0] ?? '').matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block]) => block as string);
}

/**
 * Pastes a block into a shell, with the ports and the folder of this test in the place of the usual ones.
 *
 * @param env what earlier blocks have set
 */
function paste(block: string | undefined, { ticker, tasks }: RunningServices, dataDir: string, env = {}) {
  const text = (block ?? '')
    .replaceAll('localhost:8081', new URL(ticker).host)
    .replaceAll('localhost:8080', new URL(tasks).host)
    .replaceAll('data/auth.db', join(dataDir, 'auth.db'));
  return spawn('bash', ['-c', `set -e\n${text}`], { cwd: projectFolder, env: { ...process.env, ...env } });
}

describe('the examples of the README', () => {
  it('queue a task and list it', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const shell = watch(paste(examples('Try it')[0], services, DATA_DIR));
    expect(await shell.exited).to.include({ code: 0 });
    expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\{"tasks":\[/);
  });

  it('show the stream in wscat', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const child = paste(examples('Try it')[1], services, DATA_DIR);
    const shell = watch(child);
    await shell.logged(({ type }) => type === 'ticker');
    child.stdin.end('{"type": "ping"}\n');
    await shell.exited;
    expect(shell.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  });

  it('open twenty clients by hand', async () => {
    const [DATA_DIR, TMPDIR] = [await temporaryFolder(), await temporaryFolder()];
    const services = await startServices({ env: { DATA_DIR } });
    const block = examples('Put load on it').find((each) => each.includes('wscat'));
    const shell = watch(paste(block, services, DATA_DIR, { TOKEN: await services.token(), TMPDIR }));
    expect(await shell.exited).to.include({ code: 0 });
    const counts = shell
      .output()
      .trim()
      .split('\n')
      .map((line) => Number(line.split(':')[1]));
    expect(counts).to.have.lengthOf(20);
    // The snapshot, and a tick a second from then on; twenty clients take a while to start.
    for (const count of counts) expect(count).to.be.within(2, 12);
  }).timeout(60_000);
});
