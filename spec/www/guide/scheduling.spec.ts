import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, paste } from '../../support/examples.ts';
import { request, startServices, watch } from '../../support/program.ts';

const FILE = 'www/guide/scheduling.md';

describe('the guide to schedules', () => {
  it('has requests that add, run and delete a schedule, and a module with one', async () => {
    const path = join(await temporaryFolder(), 'handlers.ts');
    await writeFile(path, examples(FILE, 'Every night', 'ts')[0] ?? '');
    const services = await startServices({ env: { TASK_HANDLERS: path } });
    const [add = '', others = ''] = examples(FILE, 'Every night').map((example) => adapt(example, services));
    const run = async (example: string) => {
      const shell = watch(paste(example));
      expect(await shell.exited, shell.errors()).to.include({ code: 0 });
      return shell.output();
    };
    expect(JSON.parse(await run(add))).to.include({ name: 'nightly', cron: '0 3 * * *', source: 'api' });
    const names = async () =>
      (await request(`${services.tasks}/schedules`)).body.schedules.map(({ name }: { name: string }) => name);
    expect(await names()).to.include.members(['nightly', 'report']);
    expect(await run(others)).to.include('"status":"queued"');
    expect(await names()).to.not.include('nightly');
  });
});
