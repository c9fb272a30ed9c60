import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { stringify } from 'yaml';
import { temporaryFolder } from '../support/cleanup.ts';
import { type RunningServices, request, watch } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { startBusyServices } from './busy-services.ts';
import { alerts, deployment, panelQueries } from './queries.ts';

/** Starts a real Prometheus that scrapes `services` every second. Returns its address. */
async function startPrometheus({ admin }: RunningServices): Promise<string> {
  const folder = await temporaryFolder();
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [join(deployment, 'alerts.yml')],
    scrape_configs: [{ job_name: 'ticker-and-tasks', static_configs: [{ targets: [new URL(admin).host] }] }],
  };
  await writeFile(join(folder, 'prometheus.yml'), stringify(config));
  const options = ['--web.listen-address=127.0.0.1:0', `--storage.tsdb.path=${folder}/data`, '--log.format=json'];
  const child = spawn('prometheus', [`--config.file=${folder}/prometheus.yml`, ...options], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const program = watch(child);
  const address = await new Promise<string>((resolve, reject) => {
    child.stderr.on('data', () => {
      const [, found] = /"address":"(127\.0\.0\.1:[1-9]\d*)"/.exec(program.errors()) ?? [];
      if (found !== undefined) resolve(`http://${found}`);
    });
    void program.exited.then(() => reject(new Error(`Prometheus ended: ${program.errors()}`)));
  });
  while ((await request(`${address}/-/ready`)).status !== 200);
  return address;
}

/** Evaluates a query in Prometheus. @throws {Error} if Prometheus cannot evaluate it */
async function evaluate(prometheus: string, query: string): Promise<unknown[]> {
  const { body } = await request(`${prometheus}/api/v1/query?query=${encodeURIComponent(query)}`);
  if (body.status !== 'success') throw new Error(`${body.error}: ${query}`);
  return body.data.result;
}

describeWith(lackingProgram('promtool', 'prometheus'), 'Prometheus', () => {
  it('accepts the configuration and the rules', () => {
    execFileSync('promtool', ['check', 'config', join(deployment, 'prometheus.yml')]);
    execFileSync('promtool', ['check', 'rules', join(deployment, 'alerts.yml')]);
  });

  it('finds no fault in the metrics, except in names that prom-client gives', async () => {
    const { admin } = await startBusyServices();
    const { body } = await request(`${admin}/metrics`);
    const { stderr, error } = spawnSync('promtool', ['check', 'metrics'], { input: body, encoding: 'utf8' });
    expect(error).to.equal(undefined);
    const amiss = stderr
      .split('\n')
      .filter((line) => line !== '' && !/^nodejs_active_\w+_total non-counter/.test(line));
    expect(amiss).to.deep.equal([]);
  });

  it('has data for every panel, and can evaluate every alert', async () => {
    const prometheus = await startPrometheus(await startBusyServices());
    for (const { expr } of panelQueries) while ((await evaluate(prometheus, expr)).length === 0);
    for (const { expr } of alerts) await evaluate(prometheus, expr);
    const { body } = await request(`${prometheus}/api/v1/rules`);
    const names = body.data.groups.flatMap(({ rules }: { rules: { name: string }[] }) => rules.map(({ name }) => name));
    expect(names).to.deep.equal(alerts.map(({ alert }) => alert));
  }).timeout(60_000);
});
