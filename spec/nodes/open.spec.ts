import { expect } from 'chai';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { openBackend } from '../../main/backends/backend.ts';
import { loadConfig } from '../../main/config.ts';
import { systemClock, systemRandom } from '../../workers/shared/clock.ts';
import { errorOf } from '../store/stage.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';
import { until } from '../support/until.ts';

async function open(databaseUrl: string, environment: NodeJS.ProcessEnv = {}) {
  const { log, lines, logged } = captureLog();
  const key = 'the key that all nodes of a spec share';
  const config = loadConfig({ DATABASE_URL: databaseUrl, TOKEN_KEY: key, ...environment });
  const backend = await openBackend(config, systemClock, systemRandom, log);
  afterTest(() => backend.close());
  return { backend, lines, logged };
}

describeWithPostgres('the storage of several nodes', () => {
  it('exchanges no ticks with a seed', async () => {
    const { backend } = await open((await emptySchema()).url, { TICKER_SEED: 'x' });
    expect(await backend.openTickFeed()).to.equal(undefined);
  });

  it('reports a stopped server in its checks and errors, however it stops, and recovers when it is back', async () => {
    const server = await startPostgres();
    afterTest(() => server.remove());
    const { backend, lines, logged } = await open(server.url);
    const { checks, apiKeys } = backend;
    for (const how of ['fast', 'immediate'] as const) {
      lines.length = 0;
      await server.stop(how);
      await logged(({ msg }) => msg === 'a connection to PostgreSQL was lost');
      await until(() => checks.notifications?.() !== undefined);
      for (const check of [checks.auth_database, checks.tasks_database])
        expect(await errorOf(() => check?.())).to.be.instanceOf(DatabaseUnavailable);
      expect(await errorOf(() => apiKeys.findOwner('k'))).to.be.instanceOf(DatabaseUnavailable);
      await server.start();
      await until(() => checks.notifications?.() === undefined);
      for (const check of Object.values(checks)) expect(await check()).to.equal(undefined);
      expect(await apiKeys.findOwner('k')).to.equal(undefined);
    }
  });
});
