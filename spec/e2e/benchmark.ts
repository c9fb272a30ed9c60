import { execFile, execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { lackingPostgres } from '../support/postgres-server.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

/** Names of the benchmark's measurements. */
export const figures = [
  'stream',
  'crowds',
  'upgrades',
  'submissions',
  'tasks',
  'durable',
  'flood',
  'counting',
  'listing',
  'storm',
  'nodes',
  'frames',
  'connections',
] as const;

type Figure = (typeof figures)[number];

interface Reading {
  reading: string;
  product: number;
  [column: string]: unknown;
}

/** Defines a suite that runs each measurement once, with small numbers. */
export function describeBenchmark(title: string, chosen: readonly Figure[]): void {
  const lacking = lackingProgram('redis-server') ?? lackingPostgres();
  describeWith(lacking, title, () => {
    before(function () {
      try {
        installPeers();
      } catch (error) {
        if (process.env.CI === 'true') throw error;
        // Skip locally: an offline machine cannot install the packages.
        this.skip();
      }
    }).timeout(300_000);

    for (const figure of chosen) {
      it(`measures ${figure} in small numbers and reports it as a table and as JSON`, async () => {
        const json = join(await temporaryFolder(), 'bench.json');
        const from = Date.now();
        const stdout = await bench([figure, '--smoke', '--runs', '1', '--json', json]);
        const { machine, date, report } = JSON.parse(await readFile(json, 'utf8'));
        expect(machine).to.have.all.keys('cpu', 'cores', 'memory', 'node');
        expect(Date.parse(date)).to.be.within(from, Date.now());
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
      }).timeout(120_000);
    }
  });
}

/** Runs the benchmark and returns its standard output. */
export async function bench(args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['spec/bench/bench.ts', ...args], {
    cwd: projectFolder,
  });
  return stdout;
}

/** Installs the packages with which the benchmark compares the product, unless all of them are installed. */
function installPeers(): void {
  const folder = join(projectFolder, 'spec/bench');
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (Object.keys(dependencies).every((name) => existsSync(join(folder, 'node_modules', name)))) return;
  const options = ['--no-save', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['install', '--prefix', folder, ...options], { stdio: 'ignore' });
}
