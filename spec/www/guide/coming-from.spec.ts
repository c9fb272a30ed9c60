import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, paste } from '../../support/examples.ts';
import { projectFolder, startServices, untilTask, watch } from '../../support/program.ts';

const FILE = 'www/guide/coming-from.md';

describe('the guide for users of other queues', () => {
  it('has an action that replaces the processor of BullMQ, and a program that submits a task once', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, 'handlers.ts'), examples(FILE, 'From BullMQ', 'ts')[0] ?? '');
    await mkdir(join(cwd, 'node_modules'));
    await symlink(projectFolder, join(cwd, 'node_modules/ticker-and-tasks'));
    await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
    const services = await startServices({ cwd, env: { TASK_HANDLERS: './handlers.ts' } });
    const submit = examples(FILE, 'From BullMQ', 'js').find((example) => example.includes('fetch('));
    await writeFile(join(cwd, 'submit.mjs'), adapt(submit, services));

    const outputs: string[] = [];
    for (let time = 1; time <= 2; time++) {
      const submitter = watch(paste(`node ${cwd}/submit.mjs`));
      expect(await submitter.exited, submitter.errors()).to.include({ code: 0 });
      outputs.push(submitter.output());
    }
    expect(outputs[0]).to.match(/^202 \{"id":/);
    expect(outputs[1]).to.equal(outputs[0]);
    const { id } = JSON.parse(outputs[0]?.slice(4) ?? '');
    const body = await untilTask(services.tasks, id);
    expect(JSON.parse(body.result)).to.deep.equal({ output: { sent: 'ada@example.com' } });
  });
});
