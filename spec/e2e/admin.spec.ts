import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { startBusyServices } from '../deployment/busy-services.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices, untilAnswer } from '../support/program.ts';
import { eventually } from '../support/until.ts';

/** Scrapes samples, keyed by name and labels, until they satisfy `holds`. */
function samplesWhen({ admin }: RunningServices, holds: (found: Map<string, number>) => boolean) {
  const scrape = async () => {
    const lines = (await request(`${admin}/metrics`)).body.split('\n').filter((line: string) => /^[^#]/.test(line));
    return new Map<string, number>(
      lines.map((line: string) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
    );
  };
  return eventually(scrape, holds);
}

/** Waits until `/readyz` responds with a status, because of the check `because` if given. Returns the checks. */
async function checksWhen({ admin }: RunningServices, status: number, because?: string) {
  const { body } = await untilAnswer(
    `${admin}/readyz`,
    (answer) => answer.status === status && (because === undefined || answer.body.checks[because].state === 'failed'),
  );
  expect(body.status).to.equal(status === 200 ? 'ready' : 'not ready');
  return body.checks;
}

describe('the admin listener of a process', () => {
  it('listens on loopback by default, and counts connections, tokens, requests and tasks', async () => {
    const services = await startBusyServices({ HOST: '0.0.0.0' });
    const line = await services.logged(({ service }) => service === 'admin');
    expect(line).to.include({ msg: 'listening', host: '127.0.0.1' });
    // This warning shows that service B listens on all interfaces.
    await services.logged(({ msg }) => msg.includes('set TASKS_REQUIRE_TOKEN=true'));
    const requests = (labels: string) => `http_server_request_duration_seconds_count{service=${labels}}`;
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
      tasks_completed_total: 1,
      tasks_dead_letters: 1,
      'tasks_dead_total{reason="permanent"}': 1,
      tasks_accepted_total: 2,
      tasks_refused_total: 1,
      tasks_cancelled_total: 0,
      'tasks_queue_length{state="waiting"}': 0,
      tasks_queue_bytes: 0,
      tasks_queue_limit_length: 100_000,
      tasks_queue_oldest_age_seconds: 0,
      tasks_schedules: 0,
      tasks_schedule_overdue_seconds: 0,
      tasks_wait_duration_seconds_count: 2,
      tasks_run_duration_seconds_count: 2,
      'tasks_pool_threads{state="idle"}': 2,
      [requests('"tasks",http_request_method="POST",http_route="/tasks",http_response_status_code="202"')]: 2,
      [requests('"ticker",http_request_method="GET",http_route="/ws/ticker",http_response_status_code="101"')]: 2,
    };
    const atLeast = {
      ticker_frames_sent_total: 3,
      ticker_tick_lateness_seconds_count: 1,
      'nodejs_eventloop_delay_seconds_count{thread="main"}': 1,
      'nodejs_eventloop_delay_seconds_count{thread="ticker"}': 1,
    };
    const unmet = (found: Map<string, number>) => [
      ...Object.entries(expected).filter(([name, value]) => found.get(name) !== value),
      ...Object.entries(atLeast).filter(([name, value]) => !((found.get(name) ?? 0) >= value)),
    ];
    // Metrics change shortly after the responses and the close frame.
    await samplesWhen(services, (found) => unmet(found).length === 0);
  });

  it('is ready unless a database is gone or locked, or the services stop, and names the failed check', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const path = (file: string) => join(DATA_DIR, file);
    const names = [
      'shutdown',
      'auth_database',
      'ticker',
      'tasks_database',
      'task_threads',
      'task_queue',
      'token_store',
    ];
    const healthy = await checksWhen(services, 200);
    expect(Object.keys(healthy)).to.have.members([...names, 'queue_paused', 'dead_letters', 'log']);
    for (const check of Object.values(healthy)) expect(check).to.deep.equal({ state: 'ok' });

    for (const [file, name] of Object.entries({ 'auth.db': 'auth_database', 'tasks.db': 'tasks_database' })) {
      await rename(path(file), path('away'));
      const checks = await checksWhen(services, 503, name);
      expect(checks[name]).to.deep.equal({ state: 'failed', detail: `${path(file)} does not exist` });
      expect((await request(`${services.admin}/healthz`)).status).to.equal(200);
      await rename(path('away'), path(file));
      await checksWhen(services, 200);
    }

    const database = openBeside(DATA_DIR);
    const postWhileLocked = () => {
      database.exec('BEGIN EXCLUSIVE');
      return post(`${services.tasks}/tasks`, { action: 'sum' });
    };
    await postWhileLocked();
    const locked = await checksWhen(services, 503, 'task_queue');
    expect(locked.task_queue).to.deep.equal({ state: 'failed', detail: 'database is locked' });
    await samplesWhen(services, (all) => all.get('tasks_queue_length{state="in_flight"}') === 1);
    database.exec('ROLLBACK');
    await samplesWhen(services, (all) => all.get('tasks_queue_length{state="in_flight"}') === 0);
    await checksWhen(services, 200);

    await postWhileLocked();
    services.child.kill('SIGTERM');
    const { shutdown } = await checksWhen(services, 503, 'shutdown');
    expect(shutdown).to.deep.equal({ state: 'failed', detail: 'shutting down' });
    database.exec('ROLLBACK');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  });
});
