import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { stringify } from 'yaml';
import { temporaryFolder } from '../support/cleanup.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { alerts, deployment } from './queries.ts';

/** Samples of twenty minutes by series, in promtool's notation: start value, increment per 15 s, and count. */
type Series = Record<string, string>;
const NEVER = '0x80';
const RISING = '0+10x80';
const ONCE = '0x60 1x20';

const lateness = 'ticker_tick_lateness_seconds_bucket';
const loopDelay = 'nodejs_eventloop_delay_seconds_bucket';
const requests = 'http_server_request_duration_seconds_count';

const well: Series = {
  up: '1x80',
  process_start_time_seconds: '1000x80',
  ticker_subscriptions: '10x80',
  ticker_frames_sent_total: '0+150x80',
  ticker_frames_skipped_total: '0+1x80',
  [`${lateness}{le="0.1"}`]: RISING,
  [`${lateness}{le="+Inf"}`]: RISING,
  ticker_tick_lateness_seconds_count: RISING,
  ticker_thread_restarts_total: NEVER,
  ticker_price_source_failing: '0x78 1x2',
  'auth_tokens_refused_total{reason="invalid API key"}': '0+1x80',
  auth_tokens_live: '50x80',
  auth_tokens_limit: '100x80',
  tasks_refused_total: NEVER,
  tasks_queue_file_failing: '0x80',
  tasks_dead_letters_evicted_total: NEVER,
  'tasks_queue_length{state="waiting"}': '10x80',
  'tasks_queue_length{state="in_flight"}': '5x80',
  tasks_queue_limit_length: '100x80',
  tasks_queue_bytes: '10x80',
  tasks_queue_limit_bytes: '100x80',
  tasks_completed_total: RISING,
  tasks_schedule_overdue_seconds: '0x80',
  'tasks_dead_total{reason="permanent"}': NEVER,
  'tasks_retried_total{reason="crash"}': NEVER,
  [`${requests}{service="tasks", http_response_status_code="202"}`]: RISING,
  [`${requests}{service="tasks", http_response_status_code="500"}`]: NEVER,
  [`${loopDelay}{thread="main", le="0.01"}`]: RISING,
  [`${loopDelay}{thread="main", le="+Inf"}`]: RISING,
  process_open_fds: '50x80',
  process_max_fds: '100x80',
  log_lines_lost_total: NEVER,
};

/** Changes to healthy series that must raise the given alert. */
const ill: [alert: string, series: Series][] = [
  ['ServicesDown', { up: '0x80' }],
  ['ServicesRestart', { process_start_time_seconds: '1000+60x80' }],
  // Pongs still increase the number of sent frames.
  ['TicksMissing', { ticker_frames_skipped_total: '9x80', ticker_tick_lateness_seconds_count: '99x80' }],
  ['TicksLate', { [`${lateness}{le="0.1"}`]: NEVER, [`${lateness}{le="1"}`]: RISING }],
  ['TickerThreadDies', { ticker_thread_restarts_total: ONCE }],
  ['PriceSourceFails', { ticker_price_source_failing: '1x80' }],
  ['ClientsTooSlow', { ticker_frames_skipped_total: RISING }],
  ['KeysGuessed', { 'auth_tokens_refused_total{reason="invalid API key"}': '0+30x80' }],
  ['TokenStoreFull', { auth_tokens_live: '95x80' }],
  ['TasksRefused', { tasks_refused_total: '0x70 1x10' }],
  ['QueueFileFails', { tasks_queue_file_failing: '1x80' }],
  ['QueueFilling', { 'tasks_queue_length{state="waiting"}': '80x80' }],
  ['QueueFilling', { tasks_queue_bytes: '85x80' }],
  ['TasksStuck', { tasks_completed_total: '7x80' }],
  ['SchedulesLate', { tasks_schedule_overdue_seconds: '0x60 70x20' }],
  ['TasksGivenUp', { 'tasks_dead_total{reason="permanent"}': ONCE }],
  ['DeadLettersEvicted', { tasks_dead_letters_evicted_total: ONCE }],
  ['TasksCrash', { 'tasks_retried_total{reason="crash"}': ONCE }],
  ['ServerErrors', { [`${requests}{service="tasks", http_response_status_code="500"}`]: '0+1x80' }],
  [
    'EventLoopHeldUp',
    { [`${loopDelay}{thread="main", le="0.01"}`]: NEVER, [`${loopDelay}{thread="main", le="1"}`]: RISING },
  ],
  ['FilesRunningOut', { process_open_fds: '95x80' }],
  ['LogLinesLost', { log_lines_lost_total: ONCE }],
];

describeWith(lackingProgram('promtool'), 'the alerts', () => {
  /** Returns a test for promtool: exactly these alerts fire after twenty minutes of the given series. */
  function firing(name: string, series: Series, names: string[]): object {
    const target = 'job="ticker-and-tasks", instance="a"';
    const inputs = Object.entries({ ...well, ...series }).map(([key, values]) => ({
      series: key.includes('{') ? key.replace('{', `{${target}, `) : `${key}{${target}}`,
      values,
    }));
    const raised = {
      expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: '20m',
      exp_samples: names.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
    };
    return { name, interval: '15s', input_series: inputs, promql_expr_test: [raised] };
  }

  it('fire each for its own cause only, none while all is well, and TasksStuck not while the queue is paused', async () => {
    const tests = [
      firing('all is well', {}, []),
      firing('paused', { tasks_completed_total: '7x80', tasks_paused: '1x80' }, []),
      ...ill.map(([alert, series]) => firing(`${alert}: ${Object.keys(series)}`, series, [alert])),
    ];
    const rules = { rule_files: [join(deployment, 'alerts.yml')], evaluation_interval: '1m', tests };
    const file = join(await temporaryFolder(), 'test.yml');
    writeFileSync(file, stringify(rules));
    execFileSync('promtool', ['test', 'rules', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    expect([...new Set(ill.map(([alert]) => alert))]).to.deep.equal(alerts.map(({ alert }) => alert));
  });
});
