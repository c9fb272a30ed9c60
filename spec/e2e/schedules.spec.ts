import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runOn } from '../support/migrated-folder.ts';
import { post, request, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const EACH_SECOND = { cron: '* * * * * *', catch_up: 'all' };

describe('a process with schedules', () => {
  it('runs each time once over kill -9, stop and restart, those of its module and those of the API', async () => {
    const DATA_DIR = await temporaryFolder();
    const start = async (schedules: object) => {
      const actions = "export default { own: () => 'own', each: () => 'each' };";
      const TASK_HANDLERS = await writeHandlers(`${actions} export const schedules = ${JSON.stringify(schedules)};`);
      return startServices({ env: { DATA_DIR, TASK_HANDLERS, QUEUE_DRIVER: 'sqlite' } });
    };
    const own = { ...EACH_SECOND, action: 'own' };
    const yearly = { cron: '0 0 1 1 *', action: 'own' };
    const first = await start({ own, yearly });
    const url = `${first.tasks}/schedules`;
    const body = JSON.stringify({ ...EACH_SECOND, action: 'each' });
    const put = await request(`${url}/each`, { method: 'PUT', body });
    expect([put.status, put.body.next.length]).to.deep.equal([200, 5]);
    const lastOf = async ({ tasks }: { tasks: string }, name: string): Promise<number> =>
      (await request(`${tasks}/schedules/${name}`)).body.last_at ?? 0;
    // The first time may have come before the answer.
    const firstTime: number = put.body.last_at ?? put.body.next[0];
    await until(async () => (await lastOf(first, 'each')) > firstTime);
    expect((await post(`${url}/yearly/run`, {})).status).to.equal(202);
    await first.end('SIGKILL');
    const killed = Date.now() / 1000;
    const second = await start({ own });
    for (const name of ['each', 'own']) await until(async () => (await lastOf(second, name)) > killed);
    const { schedules } = (await request(`${second.tasks}/schedules`)).body;
    const sources = schedules.map(({ name, source }: Record<string, string>) => `${name} ${source}`);
    expect(sources).to.deep.equal(['each api', 'own module']);
    await second.end();
    const [schedule] = runOn(DATA_DIR, "SELECT last_at AS last FROM schedules WHERE name = 'each'");
    const made = `SELECT id FROM tasks WHERE payload LIKE '%"action":"each"%' UNION ALL SELECT id FROM messages WHERE schedule = 'each'`;
    expect(runOn(DATA_DIR, made)).to.have.length(Number(schedule?.last) / 1000 - firstTime + 1);
  });
});
