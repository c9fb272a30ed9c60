import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { newSecret } from '../../support/callback-secret.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, paste } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { startServices, untilTask, watch } from '../../support/program.ts';
import { until } from '../../support/until.ts';

const FILE = 'www/guide/callbacks.md';

describe('the guide to callbacks', () => {
  it('has a receiver that accepts a callback with the new secret or the old one, and no forged one', async () => {
    const [host, port] = ['localhost:9000', await freePort()];
    const folder = await temporaryFolder();
    const [receiver = ''] = examples(FILE, 'Try it', 'js');
    await writeFile(join(folder, 'receiver.mjs'), receiver.replace('9000', `${port}`));
    const [, submit] = examples(FILE, 'Try it');
    const [OLD, NEW] = [newSecret(), newSecret()];
    const module = join(folder, 'handlers.ts');
    await writeFile(module, examples(FILE, 'Where the URL comes from', 'ts')[0] ?? '');
    const services = await startServices({
      env: {
        CALLBACK_HOSTS: `localhost:${port},shop.example.com`,
        CALLBACK_SECRET: `${NEW},${OLD}`,
        TASK_HANDLERS: module,
      },
    });
    for (const secrets of [OLD, `${newSecret()},${NEW}`, newSecret()]) {
      const env = { ...process.env, CALLBACK_SECRET: secrets };
      const listening = watch(spawn(process.execPath, [join(folder, 'receiver.mjs')], { env }));
      const url = `http://localhost:${port}`;
      // The receiver refuses a body without a signature.
      let forged: number | undefined;
      await until(() => {
        void fetch(url, { method: 'POST', body: '{}' }).then(
          ({ status }) => {
            forged = status;
          },
          () => {},
        );
        return forged !== undefined;
      });
      expect(forged).to.equal(401);
      const shell = watch(paste(adapt(submit, services).replaceAll(host, `localhost:${port}`)));
      expect(await shell.exited, shell.errors()).to.include({ code: 0 });
      const { id } = JSON.parse(shell.output());
      await untilTask(services.tasks, id);
      const isKnown = secrets.includes(OLD) || secrets.includes(NEW);
      if (isKnown) await until(() => listening.output() === `task ${id}: completed\n`);
      else {
        const line = await services.logged(
          ({ msg, reason }) => msg === 'task failed' && /answered 401/.test(`${reason}`),
        );
        expect(line.attempt).to.equal(1);
        expect(listening.output()).to.equal('');
      }
      listening.child.kill('SIGKILL');
      await listening.exited;
    }
  });
});
