import { expect } from 'chai';
import { banner } from '../../main/banner.ts';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { adapt, examples, paste, section } from '../support/examples.ts';
import { startServices, watch } from '../support/program.ts';

describe('the examples of the README', () => {
  const started = onceForSuite(async () => {
    const DATA_DIR = await temporaryFolder();
    return { DATA_DIR, services: await startServices({ env: { DATA_DIR } }) };
  });

  it('show what a start on a terminal prints', () => {
    const [, text = '', key = ''] =
      /```\n( {2}Prices.*API key (\w+)\n[\s\S]*?)```/.exec(section('README.md', 'Run it')) ?? [];
    const at = (port: number) => ({ host: '127.0.0.1', port });
    expect(`\n${text}\n`).to.equal(banner({ ticker: at(8081), tasks: at(8080), admin: at(9464) }, key));
  });

  it('queue a task and list it, twice', async () => {
    const { services } = started();
    const example = adapt(examples('README.md', 'Try it')[0], services);
    for (let time = 1; time <= 2; time++) {
      const shell = watch(paste(example));
      expect(await shell.exited).to.include({ code: 0 });
      expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\n\{"tasks":\[/);
    }
  });

  it('show the stream in wscat, twice', async () => {
    const { services, DATA_DIR } = started();
    const example = adapt(examples('README.md', 'Try it')[1], services);
    for (let time = 1; time <= 2; time++) {
      const child = paste(example, { DATA_DIR });
      const shell = watch(child);
      await shell.logged(({ type }) => type === 'ticker');
      child.stdin.end('{"type": "ping"}\n');
      await shell.exited;
      expect(shell.lines[0]).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    }
  });
});
