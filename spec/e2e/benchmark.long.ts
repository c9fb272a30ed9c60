import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { lackingPostgres } from '../support/postgres-server.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

// Without the figures that repeat another one with other numbers.
const figures = 'tasks stream upgrades submissions durable flood counting listing storm nodes'.split(' ');

const bench = (...args: string[]) => run(process.execPath, ['spec/bench/bench.ts', ...args], { cwd: projectFolder });

describeWith(lackingProgram('redis-server') ?? lackingPostgres(), 'the benchmark', () => {
  before(function () {
    try {
      installPeers();
    } catch (error) {
      if (process.env.CI === 'true') throw error;
      // Skip locally: an offline machine cannot install the packages.
      this.skip();
    }
  }).timeout(300_000);

  for (const figure of figures) {
    it(`measures ${figure} and reports the numbers as a table and as JSON`, async () => {
      const json = join(await temporaryFolder(), 'bench.json');
      const { code, stdout, stderr } = await bench(figure, '--smoke', '--runs', '1', '--json', json);
      expect(code, stderr).to.equal(0);
      const { machine, report } = JSON.parse(await readFile(json, 'utf8'));
      expect(machine).to.have.all.keys('cpu', 'cores', 'memory', 'node');
      const [{ readings, contenders }] = report;
      for (const [runs] of Object.values<object[][]>(contenders))
        for (const value of Object.values(runs as object)) expect(value).to.satisfy(Number.isFinite);
      for (const { reading, product, spread, ...columns } of readings as Record<string, unknown>[]) {
        expect(stdout)
          .to.include(reading as string)
          .and.to.include(String(product));
        expect(product).to.satisfy(Number.isFinite);
        expect(spread).to.match(/^\d+ %$/);
        for (const [column, value] of Object.entries(columns))
          if (column.startsWith('ratio')) expect(value, `${reading}, ${column}`).to.satisfy(Number.isFinite);
        if (/missed|failed/.test(reading as string)) expect(product, reading as string).to.equal(0);
      }
    }).timeout(600_000);
  }

  it('takes only the names of figures', async () => {
    const { code, stderr } = await bench('nonsense', '--smoke');
    expect(code).to.equal(1);
    expect(stderr).to.match(/^there is no figure nonsense, only stream, .*tasks.*\n$/);
  });
});

/** Installs the packages with which the benchmark compares the product, unless all of them are installed. */
function installPeers(): void {
  const folder = join(projectFolder, 'spec/bench');
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  if (Object.keys(dependencies).every((name) => existsSync(join(folder, 'node_modules', name)))) return;
  const options = ['--no-save', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['install', '--prefix', folder, ...options], { stdio: 'ignore' });
}
