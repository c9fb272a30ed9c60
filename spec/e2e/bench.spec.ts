import { execFile, execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { lackingPostgres } from '../support/postgres-server.ts';
import { projectFolder } from '../support/program.ts';
import { lackingProgram } from '../support/requirements.ts';

const folder = join(projectFolder, 'spec/bench');
const mustRun = process.env.CI === 'true';

/** What keeps the benchmark from running here, after what can be installed was. */
function lacking(): string | undefined {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' });
  } catch {
    return 'there is no redis-server on this machine';
  }
  if (existsSync(join(folder, 'node_modules'))) return undefined;
  try {
    const options = ['--no-save', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', ['install', '--prefix', folder, ...options], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'the peers cannot be installed';
  }
}

const figures = [
  'stream',
  'crowds',
  'upgrades',
  'submissions',
  'tasks',
  'durable',
  'flood',
  'counting',
  'listing',
  'nodes',
  'frames',
  'connections',
];

interface Reading {
  reading: string;
  product: number;
  [column: string]: unknown;
}

describe('the benchmark', () => {
  before(function () {
    const reason = lacking();
    if (reason === undefined) return;
    if (mustRun) throw new Error(reason);
    this.test?.parent?.tests.forEach((test) => {
      test.title += ` (pending: ${reason})`;
    });
    this.skip();
  }).timeout(120_000);

  for (const figure of figures) {
    it(`measures ${figure} in small numbers, and tells of it in a table and in JSON`, async function () {
      const reason = figure === 'nodes' ? (lackingProgram('nats-server') ?? lackingPostgres()) : undefined;
      if (reason !== undefined && !mustRun) {
        if (this.test !== undefined) this.test.title += ` (pending: ${reason})`;
        this.skip();
      }
      const json = join(await temporaryFolder(), 'bench.json');
      const args = ['spec/bench/bench.ts', figure, '--smoke', '--runs', '1', '--json', json];
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: projectFolder, timeout: 55_000 });
      const { machine, date, report } = JSON.parse(await readFile(json, 'utf8'));
      expect(machine).to.have.all.keys('cpu', 'cores', 'memory', 'node');
      expect(Date.parse(date)).to.be.within(Date.now() - 60_000, Date.now());
      const [{ readings, contenders }] = report;
      for (const runs of Object.values<Record<string, unknown>[]>(contenders)) {
        expect(runs).to.have.lengthOf(1);
        for (const value of Object.values(runs[0] as object)) expect(value).to.satisfy(Number.isFinite);
      }
      for (const { reading, product, spread, ...columns } of readings as Reading[]) {
        expect(stdout).to.include(reading).and.to.include(String(product));
        expect(product, reading).to.satisfy(Number.isFinite);
        expect(spread).to.match(/^\d+ %$/);
        for (const [column, value] of Object.entries(columns)) {
          if (column.startsWith('ratio')) expect(value, `${reading}, ${column}`).to.satisfy(Number.isFinite);
        }
        if (/missed|failed/.test(reading)) expect(product, reading).to.equal(0);
      }
    }).timeout(60_000);
  }

  it('knows no other figures', async () => {
    const args = ['spec/bench/bench.ts', 'nonsense', '--smoke'];
    const run = promisify(execFile)(process.execPath, args, { cwd: projectFolder });
    const { code, stderr } = await run.catch((error) => error);
    expect(code).to.equal(1);
    expect(stderr).to.equal(`there is no figure nonsense, only ${figures.join(', ')}\n`);
  });
});
