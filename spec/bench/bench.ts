/** `npm run bench`: the product beside what people would pick instead, in one run on one machine. */
import { writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { type Figure, meets, type Reading } from './figure.ts';
import { stream } from './figures/stream.ts';
import { submissions } from './figures/submissions.ts';
import { durableTasks, tasks } from './figures/tasks.ts';
import { upgrades } from './figures/upgrades.ts';
import { type Sample, sample } from './statistics.ts';

const figures: Readonly<Record<string, () => Figure>> = {
  stream: () => stream(10_000, 20),
  upgrades: () => upgrades(10_000),
  submissions: () => submissions(32, 8),
  tasks: () => tasks(50_000),
  durable: () => durableTasks(20_000),
};

const { values, positionals } = parseArgs({
  options: { runs: { type: 'string', default: '3' }, json: { type: 'string', default: 'bench.json' } },
  allowPositionals: true,
});
const names = positionals.length > 0 ? positionals : Object.keys(figures);
const report: object[] = [];
for (const name of names) {
  const make = figures[name];
  if (make === undefined) throw new Error(`there is no figure ${name}, only ${Object.keys(figures).join(', ')}`);
  const figure = make();
  console.log(`\n${figure.name}`);
  const measured = await measure(figure, Number(values.runs));
  const rows = figure.readings.map((reading) => evaluate(reading, measured));
  console.table(Object.fromEntries(rows.map(({ reading, ...row }) => [reading, row])));
  report.push({ figure: figure.name, contenders: Object.fromEntries(measured), readings: rows });
}
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, memory: totalmem(), node: process.version };
await writeFile(values.json, `${JSON.stringify({ machine, date: new Date().toISOString(), report }, null, 2)}\n`);
console.log(`\nall values: ${values.json}`);

/** Contenders take turns, so that a machine that grows slow is slow for all. */
async function measure({ contenders }: Figure, runs: number): Promise<Map<string, Record<string, number>[]>> {
  const measured = new Map<string, Record<string, number>[]>(Object.keys(contenders).map((name) => [name, []]));
  for (let run = 1; run <= runs; run++) {
    for (const [name, once] of Object.entries(contenders)) {
      process.stderr.write(`  run ${run} of ${runs}: ${name}\u001b[K\r`);
      measured.get(name)?.push(await once());
    }
  }
  process.stderr.write('\u001b[K');
  return measured;
}

function evaluate(reading: Reading, measured: ReadonlyMap<string, Record<string, number>[]>) {
  const { name, key, unit, of = 'product', beside, target } = reading;
  const read = (contender: string): Sample =>
    sample((measured.get(contender) ?? []).map((each) => each[key] ?? Number.NaN));
  const own = read(of);
  const others = beside === undefined ? [] : [...measured.keys()].filter((peer) => isPeer(peer));
  const ratio = beside === undefined ? undefined : own.median / read(beside).median;
  const met = meets(ratio ?? own.median, target);
  return {
    reading: unit === '' ? name : `${name}, ${unit}`,
    product: round(own.median),
    spread: `${Math.round(own.spread * 100)} %`,
    ...Object.fromEntries(others.map((peer) => [peer, round(read(peer).median)])),
    ...(ratio !== undefined && { [`ratio to ${beside}`]: round(ratio) }),
    ...(target && { target: describe(target), met }),
  };
}

/** Some settings of the product are contenders, too: they are read by name only. */
function isPeer(name: string): boolean {
  return !['product', 'prefetch 50', 'a token each'].includes(name);
}

function describe(target: NonNullable<Reading['target']>): string {
  return 'atMost' in target ? `<= ${target.atMost}` : `>= ${target.atLeast}`;
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}
