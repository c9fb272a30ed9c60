import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { adapt, examples, paste } from '../support/examples.ts';
import { startServices, watch } from '../support/program.ts';

describe('the examples of the README', () => {
  const started = onceForSuite(async () => {
    const DATA_DIR = await temporaryFolder();
    return { DATA_DIR, services: await startServices({ env: { DATA_DIR } }) };
  });

  it('queue a task and list it', async () => {
    const { services } = started();
    const shell = watch(paste(adapt(examples('README.md', 'Try it')[0], services)));
    expect(await shell.exited).to.include({ code: 0 });
    expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\n\{"tasks":\[/);
  });

  it('show the stream in wscat', async () => {
    const { services, DATA_DIR } = started();
    const child = paste(adapt(examples('README.md', 'Try it')[1], services, DATA_DIR));
    const shell = watch(child);
    await shell.logged(({ type }) => type === 'ticker');
    child.stdin.end('{"type": "ping"}\n');
    await shell.exited;
    expect(shell.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
  });
});
