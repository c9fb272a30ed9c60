import { expect } from 'chai';
import { adapt, examples, paste } from '../../support/examples.ts';
import { startServices, watch } from '../../support/program.ts';
import { configureNginx, describeBehind } from './behind-proxy.ts';

describeBehind('nginx', 'nginx', configureNginx);

describe('the guide to securing', () => {
  it('queues a task with a token where TASKS_REQUIRE_TOKEN is set', async () => {
    const services = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true' } });
    const commands = ['Tokens for the task queue', 'Tokens for tasks'].flatMap((heading) =>
      examples('www/guide/securing.md', heading).flatMap((example) => adapt(example, services).split('\n')),
    );
    const shell = watch(paste(commands.join('\necho\n'), services.env));
    const { status } = await shell.logged((line) => line.status !== undefined);
    for (const expires_in of [600, 3600]) await shell.logged((line) => line.expires_in === expires_in);
    expect([status, (await shell.exited).code]).to.deep.equal(['queued', 0]);
  });
});
