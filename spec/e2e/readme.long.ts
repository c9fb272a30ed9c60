import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { examples, section } from '../support/examples.ts';
import { post, projectFolder, startServices, untilTask } from '../support/program.ts';
import { connect } from '../support/websocket.ts';

describe('the actions and symbols that the README proposes', () => {
  it('work in the services', async () => {
    const cwd = await temporaryFolder();
    const [module = '', ...others] = examples('README.md', 'Make it yours', 'ts');
    expect(others).to.deep.equal([]);
    await writeFile(join(cwd, 'handlers.ts'), module);
    await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
    const [, command = ''] = /`([^`]+) npm start`/.exec(section('README.md', 'Make it yours')) ?? [];
    const env = Object.fromEntries(command.split(' ').map((setting) => setting.split(/=(.*)/)));
    expect(env).to.have.keys('TASK_HANDLERS', 'TICKER_SYMBOLS');
    const services = await startServices({ cwd, env });
    const { tasks } = services;

    const outputOf = async (action: string, data: object) => {
      const { id } = (await post(`${tasks}/tasks`, { action, data })).body;
      const body = await untilTask(tasks, id);
      return JSON.parse(body.result).output;
    };
    expect(await outputOf('words', { text: 'three short words' })).to.equal(3);
    expect(await outputOf('mean', { numbers: [1, 2, 6] })).to.equal(3);
    await services.logged(({ msg, action }) => msg === 'the mean of 3 numbers' && action === 'mean');
    expect((await post(`${tasks}/tasks`, { action: 'mean', data: { numbers: [] } })).body).to.include({
      error: 'invalid data',
      path: '/numbers',
    });

    const client = await connect(services.stream, { token: await services.token() });
    const { data } = await client.nextOf('ticker');
    const sent = data.map(({ symbol }: { symbol: string }) => symbol);
    expect(sent).to.deep.equal(['BTC-USD', 'LTC-USD', 'DOGE-USD']);
  });
});
