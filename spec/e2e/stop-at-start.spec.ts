import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { freePort } from '../support/free-port.ts';
import { queueCounts } from '../support/ledger.ts';
import { post, projectFolder, startProgram, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

/** Number of the address lookup that hangs. The first three check the ports. Service B's follows the opening of its queue. */
const TASKS_LISTENER = '5';
const ADMIN_LISTENER = '6';

/** Creates a data folder in which a stopped process left two tasks and a paused queue. */
async function folderWithTasks(): Promise<string> {
  const DATA_DIR = await temporaryFolder();
  const { tasks, child, exited } = await startServices({ env: { DATA_DIR } });
  await post(`${tasks}/queue/pause`, {});
  for (let count = 0; count < 2; count++) await post(`${tasks}/tasks`, { action: 'sum' });
  child.kill('SIGTERM');
  expect((await exited).code).to.equal(0);
  return DATA_DIR;
}

/** Starts a process and waits until its start hangs. */
async function startHanging(env: Record<string, string>) {
  const preload = pathToFileURL(join(projectFolder, 'spec/e2e/hanging-lookup.ts')).href;
  const program = await startProgram({ env, nodeOptions: ['--import', preload] });
  await program.logged(({ msg }) => msg === 'the start hangs');
  return program;
}

async function expectBothTasks(DATA_DIR: string): Promise<void> {
  const { tasks } = await startServices({ env: { DATA_DIR } });
  expect(await queueCounts(tasks)).to.include({ accepted: 2, waiting: 2 });
}

describe('a stop during the start, with the in-memory queue', () => {
  it('loses none of the tasks that an earlier process left, and ends with exit code 0', async () => {
    const DATA_DIR = await folderWithTasks();
    const program = await startHanging({ DATA_DIR, HANGING_LOOKUP: TASKS_LISTENER, SHUTDOWN_TIMEOUT_MS: '0' });
    program.child.kill('SIGTERM');
    expect((await program.exited).code).to.equal(0);
    expect(program.lines.at(-1)).to.include({ msg: 'stopped during the start', unfinished: 0 });
    await expectBothTasks(DATA_DIR);
  });

  it('loses none of them by force, and ends with exit code 1', async () => {
    const DATA_DIR = await folderWithTasks();
    const program = await startHanging({ DATA_DIR, HANGING_LOOKUP: TASKS_LISTENER });
    // Repeated signals within the first second count as one.
    await eventually(
      () => program.child.kill('SIGTERM'),
      () => program.lines.at(-1)?.msg === 'stopped by force',
    );
    expect((await program.exited).code).to.equal(1);
    expect(program.lines.at(-1)).to.include({ unfinished: 0 });
    await expectBothTasks(DATA_DIR);
  });

  it('reports tasks that were accepted meanwhile as lost, with exit code 20', async () => {
    const DATA_DIR = await temporaryFolder();
    const port = await freePort();
    const env = { DATA_DIR, TASKS_PORT: `${port}`, HANGING_LOOKUP: ADMIN_LISTENER, SHUTDOWN_TIMEOUT_MS: '0' };
    const program = await startHanging(env);
    const rows = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => rows.close());
    rows.exec('BEGIN EXCLUSIVE');
    expect((await post(`http://127.0.0.1:${port}/tasks`, { action: 'sum' })).status).to.equal(202);
    program.child.kill('SIGTERM');
    expect((await program.exited).code).to.equal(20);
    expect(program.lines.at(-1)).to.include({ msg: 'stopped during the start', unfinished: 1 });
  });
});
