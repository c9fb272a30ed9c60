import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, type RunningServices, request, startProgram, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

/** Names of the checks. */
const NAMES = [
  'shutdown',
  'auth_database',
  'ticker',
  'tasks_database',
  'task_threads',
  'task_queue',
  'token_store',
  'queue_paused',
  'dead_letters',
  'log',
];

/** Scrapes all samples of a process, keyed by name and labels. */
async function samples({ admin }: RunningServices): Promise<Map<string, number>> {
  const { body } = await request(`${admin}/metrics`);
  const lines = (body as string).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]));
}

/** Scrapes until the samples satisfy `holds`. */
function samplesWhen(services: RunningServices, holds: (found: Map<string, number>) => boolean) {
  return eventually(() => samples(services), holds);
}

/** Waits until `/readyz` responds with a status, because of the check `because` if given. Returns the body. */
async function ready({ admin }: RunningServices, status: number, because?: string) {
  const { body } = await eventually(
    () => request(`${admin}/readyz`),
    (answer) => answer.status === status && (because === undefined || answer.body.checks[because].state === 'failed'),
  );
  return body;
}

describe('the admin listener', () => {
  it('is not there when it is off', async () => {
    const { lines, child, exited, logged } = await startProgram({ env: { ADMIN_PORT: 'off' } });
    await logged(({ service }) => service === 'tasks');
    child.kill('SIGTERM');
    expect((await exited).code).to.equal(0);
    expect(lines.some(({ service }) => service === 'admin')).to.equal(false);
  });

  it('listens on loopback by default, and counts what happened', async () => {
    const services = await startServices({ env: { HOST: '0.0.0.0' } });
    const line = await services.logged(({ service }) => service === 'admin');
    expect(line).to.include({ msg: 'listening', host: '127.0.0.1' });
    // This warning shows that service B listens on all interfaces.
    await services.logged(({ msg }) => msg.includes('set TASKS_REQUIRE_TOKEN=true'));
    const client = await connect(services.stream, { token: await services.token() });
    await connect(services.stream, { token: 'none' }).catch(() => {});
    await post(`${services.ticker}/auth/token`, { api_key: 'none' });
    await client.nextOf('ticker');
    await client.nextOf('ticker');
    const gone = await connect(services.stream, { token: await services.token() });
    gone.socket.close(1000);
    await gone.closed;
    await post(`${services.tasks}/tasks`, { action: 'sum', data: { numbers: [1, 2] } });
    await post(`${services.tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
    await post(`${services.tasks}/tasks`, {});
    const delays = ['main', 'ticker'].map((thread) => `nodejs_eventloop_delay_seconds_count{thread="${thread}"}`);
    // These metrics change shortly after the responses and the close frame.
    const found = await samplesWhen(
      services,
      (all) =>
        all.get('tasks_completed_total') === 1 &&
        all.get('tasks_dead_letters') === 1 &&
        all.get('tasks_pool_threads{state="idle"}') === 2 &&
        all.get('ticker_websocket_connections') === 1 &&
        delays.every((name) => (all.get(name) ?? 0) > 0),
    );
    const expected = {
      ticker_websocket_connections: 1,
      ticker_subscriptions: 1,
      ticker_frames_skipped_total: 0,
      'ticker_websocket_upgrades_total{outcome="accepted"}': 2,
      'ticker_websocket_upgrades_total{outcome="authentication required"}': 1,
      'ticker_websocket_closes_total{code="1000"}': 1,
      ticker_thread_restarts_total: 0,
      ticker_price_source_failing: 0,
      'ticker_price_source_failures_total{reason="error"}': 0,
      'ticker_price_source_failures_total{reason="stalled"}': 0,
      ticker_prices_refused_total: 0,
      auth_tokens_issued_total: 2,
      'auth_tokens_refused_total{reason="invalid API key"}': 1,
      auth_tokens_live: 2,
      auth_tokens_limit: 100_000,
      tasks_queue_file_failing: 0,
      tasks_dead_letters_evicted_total: 0,
      tasks_accepted_total: 2,
      'tasks_dead_total{reason="permanent"}': 1,
      tasks_cancelled_total: 0,
      tasks_refused_total: 0,
      'tasks_queue_length{state="waiting"}': 0,
      tasks_queue_bytes: 0,
      tasks_queue_limit_length: 100_000,
      tasks_queue_oldest_age_seconds: 0,
      tasks_wait_duration_seconds_count: 2,
      tasks_run_duration_seconds_count: 2,
      'tasks_pool_threads{state="idle"}': 2,
      'http_server_request_duration_seconds_count{service="tasks",http_request_method="POST",http_route="/tasks",http_response_status_code="202"}': 2,
      'http_server_request_duration_seconds_count{service="ticker",http_request_method="GET",http_route="/ws/ticker",http_response_status_code="101"}': 2,
    };
    for (const [name, value] of Object.entries(expected)) expect([name, found.get(name)]).to.deep.equal([name, value]);
    expect(found.get('ticker_frames_sent_total')).to.be.at.least(3);
    expect(found.get('ticker_tick_lateness_seconds_count')).to.be.at.least(1);
    expect(found.get('ticker_tick_lateness_seconds_bucket{le="+Inf"}')).to.equal(
      found.get('ticker_tick_lateness_seconds_count'),
    );
  });

  it('tells how old the oldest waiting task is and why tasks wait, and is not ready from the signal on until the work is done', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const database = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => database.close());
    database.exec('BEGIN EXCLUSIVE');
    await post(`${services.tasks}/tasks`, { action: 'sum' });
    const { status, checks } = await ready(services, 503, 'task_queue');
    expect(status).to.equal('not ready');
    expect(checks.task_queue).to.deep.equal({
      state: 'failed',
      detail: 'database is locked',
    });
    await samplesWhen(services, (all) => (all.get('tasks_queue_oldest_age_seconds') ?? 0) > 0.1);
    database.exec('ROLLBACK');
    const found = await samplesWhen(services, (all) => all.get('tasks_completed_total') === 1);
    expect(found.get('tasks_queue_oldest_age_seconds')).to.equal(0);
    const { checks: healthy } = await ready(services, 200);
    expect(Object.keys(healthy)).to.have.members(NAMES);
    expect(Object.values(healthy)).to.deep.equal(Array(NAMES.length).fill({ state: 'ok' }));

    database.exec('BEGIN EXCLUSIVE');
    await post(`${services.tasks}/tasks`, { action: 'sum' });
    services.child.kill('SIGTERM');
    await services.logged(({ msg }) => msg === 'stopping');
    const { checks: last } = await ready(services, 503, 'shutdown');
    expect(last.shutdown).to.deep.equal({ state: 'failed', detail: 'shutting down' });
    database.exec('ROLLBACK');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  });

  it('is ready once the first tick was made, and not while a database is gone, which it names, until it is back', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const { status, checks: first } = await ready(services, 200);
    expect(status).to.equal('ready');
    expect(Object.keys(first)).to.have.members(NAMES);
    for (const [name, check] of [
      ['auth.db', 'auth_database'],
      ['tasks.db', 'tasks_database'],
    ] as const) {
      const path = join(DATA_DIR, name);
      await rename(path, `${path}.away`);
      const { checks } = await ready(services, 503, check);
      expect(checks[check]).to.deep.equal({ state: 'failed', detail: `${path} does not exist` });
      expect((await request(`${services.admin}/healthz`)).status).to.equal(200);
      await rename(`${path}.away`, path);
      await ready(services, 200);
    }
  });
});
