import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { banner } from '../../main/process/serve.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { adapt, examples, paste, section } from '../support/examples.ts';
import { post, projectFolder, startServices, untilTask, watch } from '../support/program.ts';
import { connect } from '../support/websocket.ts';

describe('the README', () => {
  it('shows what a start on a terminal prints, with localhost for loopback and every interface, otherwise the address', () => {
    const [, text = '', key = ''] =
      /```\n( {2}Prices.*API key (\w+)\n[\s\S]*?)```/.exec(section('README.md', 'Run it')) ?? [];
    const at = (port: number) => ({ host: '127.0.0.1', port });
    expect(`\n${text}\n`).to.equal(banner({ ticker: at(8081), tasks: at(8080), admin: at(9464) }, key));
    expect(banner({ ticker: at(1), tasks: at(1) }, key), 'without the admin listener').to.not.include('Operation');
    for (const [host, shown] of [
      ...['::', '::1', '0.0.0.0'].map((each) => [each, 'localhost'] as const),
      ...([
        ['192.0.2.7', '192.0.2.7'],
        ['2001:db8::1', '[2001:db8::1]'],
      ] as const),
    ])
      expect(banner({ ticker: { host, port: 1 }, tasks: at(1) }, key)).to.include(`http://${shown}:1`);
  });

  it('proposes actions and symbols that work, and commands that queue a task and list it, also if repeated', async () => {
    const cwd = await temporaryFolder();
    const [module = '', ...others] = examples('README.md', 'Make it yours', 'ts');
    expect(others).to.deep.equal([]);
    await writeFile(join(cwd, 'handlers.ts'), module);
    await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
    const [, command = ''] = /`([^`]+) npm start`/.exec(section('README.md', 'Make it yours')) ?? [];
    const env = Object.fromEntries(command.split(' ').map((setting) => setting.split(/=(.*)/)));
    expect(env).to.have.keys('TASK_HANDLERS', 'TICKER_SYMBOLS');
    const services = await startServices({ cwd, env });
    const submit = async (action: string, data: object) =>
      (await post(`${services.tasks}/tasks`, { action, data })).body;

    const outputs: unknown[] = [];
    for (const { id } of [
      await submit('words', { text: 'three short words' }),
      await submit('mean', { numbers: [1, 5] }),
    ])
      outputs.push(JSON.parse((await untilTask(services.tasks, id)).result).output);
    expect(outputs).to.deep.equal([3, 3]);
    await services.logged(({ msg, action }) => msg === 'the mean of 2 numbers' && action === 'mean');
    expect(await submit('mean', { numbers: [] })).to.include({ error: 'invalid data', path: '/numbers' });
    const client = await connect(services.stream, { token: await services.token() });
    const { data } = await client.nextOf('ticker');
    const sent = data.map(({ symbol }: { symbol: string }) => symbol);
    expect(sent).to.deep.equal(['BTC-USD', 'LTC-USD', 'DOGE-USD']);

    const example = adapt(examples('README.md', 'Try it')[0], services);
    for (let time = 1; time <= 2; time++) {
      const shell = watch(paste(example));
      expect(await shell.exited).to.include({ code: 0 });
      expect(shell.output()).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\n\{"tasks":\[/);
    }
  });
});
