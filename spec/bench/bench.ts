/** `npm run bench`: the product beside what people would pick instead, in one run on one machine. */
import { writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { type Figure, meets, type Reading } from './figure.ts';
import { counting } from './figures/counting.ts';
import { flood } from './figures/flood.ts';
import { listing } from './figures/listing.ts';
import { nodes } from './figures/nodes.ts';
import { storm } from './figures/storm.ts';
import { crowds, stream, streamLinearity } from './figures/stream.ts';
import { submissionLinearity, submissions } from './figures/submissions.ts';
import { durableTasks, tasks } from './figures/tasks.ts';
import { upgrades } from './figures/upgrades.ts';
import { type Sample, sample } from './statistics.ts';

/** A figure in full, and small: as a proof that it can be measured at all. */
interface Sizes {
  full(): Figure;
  smoke(): Figure;
}

const figures: Readonly<Record<string, Sizes>> = {
  stream: { full: () => stream(10_000, 20), smoke: () => stream(20, 2) },
  crowds: { full: () => crowds([10_000, 18_000], 60), smoke: () => crowds([10, 20], 2) },
  upgrades: { full: () => upgrades(10_000), smoke: () => upgrades(100) },
  submissions: { full: () => submissions(32, 8), smoke: () => submissions(4, 1) },
  tasks: { full: () => tasks(50_000), smoke: () => tasks(500) },
  durable: { full: () => durableTasks(20_000), smoke: () => durableTasks(200) },
  flood: { full: () => flood(1000, 20), smoke: () => flood(20, 4) },
  counting: { full: () => counting(8, 1_000_000), smoke: () => counting(1, 1000) },
  listing: {
    full: () => listing([1000, 100_000, 1_000_000, 5_000_000], 1000),
    smoke: () => listing([300, 1000], 50),
  },
  storm: { full: () => storm(10_000, 100), smoke: () => storm(20, 2) },
  nodes: { full: () => nodes(10_000, 20), smoke: () => nodes(200, 2) },
  frames: {
    full: () => streamLinearity([1000, 5000, 18_000, 10_000], 15),
    smoke: () => streamLinearity([10, 20], 2),
  },
  connections: {
    full: () => submissionLinearity([1, 4, 16, 64, 256, 32], 5),
    smoke: () => submissionLinearity([1, 4], 1),
  },
};

const { values, positionals } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    json: { type: 'string', default: 'bench.json' },
    smoke: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const names = positionals.length > 0 ? positionals : Object.keys(figures);
const unknown = names.find((name) => figures[name] === undefined);
if (unknown !== undefined) {
  console.error(`there is no figure ${unknown}, only ${Object.keys(figures).join(', ')}`);
  process.exit(1);
}
const report: object[] = [];
for (const name of names) {
  const sizes = figures[name] as Sizes;
  const figure = values.smoke ? sizes.smoke() : sizes.full();
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

/** The product with other settings is a contender, too: it is read by name only. */
function isPeer(name: string): boolean {
  return !name.startsWith('product');
}

function describe(target: NonNullable<Reading['target']>): string {
  if ('within' in target) return `1 ± ${target.within}`;
  return 'atMost' in target ? `<= ${target.atMost}` : `>= ${target.atLeast}`;
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}
