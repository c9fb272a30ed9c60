import { expect } from 'chai';
import { banner } from '../../main/process/serve.ts';
import { adapt, examples, paste, section } from '../support/examples.ts';
import { startServices, watch } from '../support/program.ts';

describe('the examples of the README', () => {
  it('show what a start on a terminal prints', () => {
    const [, text = '', key = ''] =
      /```\n( {2}Prices.*API key (\w+)\n[\s\S]*?)```/.exec(section('README.md', 'Run it')) ?? [];
    const at = (port: number) => ({ host: '127.0.0.1', port });
    expect(`\n${text}\n`).to.equal(banner({ ticker: at(8081), tasks: at(8080), admin: at(9464) }, key));
  });

  it('queue a task and list it, also if they are repeated', async () => {
    const example = adapt(examples('README.md', 'Try it')[0], await startServices());
    for (let time = 1; time <= 2; time++) {
      const shell = watch(paste(example));
      expect(await shell.exited).to.include({ code: 0 });
      expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\n\{"tasks":\[/);
    }
  });
});
