import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { adapt, examples, paste } from '../support/examples.ts';
import { startServices, watch } from '../support/program.ts';

describe('the examples of the README', () => {
  it('queue a task and list it', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const shell = watch(paste(adapt(examples('README.md', 'Try it')[0], services)));
    expect(await shell.exited).to.include({ code: 0 });
    expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\{"tasks":\[/);
  });

  it('show the stream in wscat', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const child = paste(adapt(examples('README.md', 'Try it')[1], services, DATA_DIR));
    const shell = watch(child);
    await shell.logged(({ type }) => type === 'ticker');
    child.stdin.end('{"type": "ping"}\n');
    await shell.exited;
    expect(shell.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  });

  it('open twenty clients by hand', async () => {
    const [DATA_DIR, TMPDIR] = [await temporaryFolder(), await temporaryFolder()];
    const services = await startServices({ env: { DATA_DIR } });
    const block = examples('README.md', 'Put load on it').find((each) => each.includes('wscat'));
    const shell = watch(paste(adapt(block, services), { TOKEN: await services.token(), TMPDIR }));
    expect(await shell.exited).to.include({ code: 0 });
    const counts = shell
      .output()
      .trim()
      .split('\n')
      .map((line) => Number(line.split(':')[1]));
    expect(counts).to.have.lengthOf(20);
    // The snapshot, and a tick a second from then on. Twenty clients take long to start on a loaded machine.
    for (const count of counts) expect(count).to.be.at.least(2);
  }).timeout(60_000);
});
