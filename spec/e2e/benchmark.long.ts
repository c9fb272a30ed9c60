import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { lackingPostgres } from '../support/postgres-server.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

// Without the figures that repeat another one with other numbers.
const figures = 'tasks stream upgrades submissions durable flood storm nodes'.split(' ');

const bench = (...args: string[]) => run(process.execPath, ['spec/bench/bench.ts', ...args], { cwd: projectFolder });

describeWith(lackingProgram('redis-server', 'wrk') ?? lackingPostgres(), 'the benchmark', () => {
  before(async function () {
    const install = 'install --prefix spec/bench --no-save --prefer-offline --no-audit';
    const peers = await run('npm', install.split(' '));
    // An offline machine cannot install the packages.
    if (peers.code !== 0 && process.env.CI !== 'true') this.skip();
    expect(peers).to.include({ code: 0 });
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
      for (const { reading, product, ...columns } of readings) {
        expect(stdout).to.include(reading).and.to.include(String(product));
        for (const [column, value] of Object.entries({ product, ...columns }))
          if (/product|^ratio/.test(column)) expect(value, `${reading}, ${column}`).to.satisfy(Number.isFinite);
        if (/missed|failed/.test(reading)) expect(product, reading).to.equal(0);
      }
    }).timeout(600_000);
  }

  it('takes only the names of figures', async () => {
    const { code, stderr } = await bench('nonsense', '--smoke');
    expect(code).to.equal(1);
    expect(stderr).to.match(/^there is no figure nonsense, only stream, .*tasks.*\n$/);
  });
});
