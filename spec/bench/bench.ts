/** `npm run bench`: the product beside what people would pick instead, in one run on one machine. */
import { writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { mochaHooks } from '../support/cleanup.ts';
import { storm, stream, upgrades } from './figures/streams.ts';
import { flood, submissions } from './figures/submissions.ts';
import { durableTasks, nodes, scheduled, shapes, tasks } from './figures/tasks.ts';

/** Something that is measured, of the product and of those beside it, in turn. */
export interface Figure {
  name: string;
  /** Measures each contender once; the product is called `product`, with other settings or sizes `product, …`. */
  contenders: Readonly<Record<string, () => Promise<Record<string, number>>>>;
  /** What is read off a measurement, each with what is asked of it. */
  readings: readonly Reading[];
}

export interface Reading {
  key: string;
  name: string;
  /** Absent for counts and ratios. */
  unit?: string;
  /** Whose number it is; the product's if absent. */
  of?: string;
  /** The contender that it is compared with; none if the number speaks for itself. */
  beside?: string;
  /** Bound of the ratio to that contender, or of the number itself. */
  target?: Target;
}

type Target = { atMost: number } | { atLeast: number };

type Measured = Map<string, Record<string, number>[]>;

const { values, positionals } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    json: { type: 'string', default: 'bench.json' },
    smoke: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});

/** The figures in full, and small: as a proof that they can be measured at all. */
const figures: Readonly<Record<string, (isSmall: boolean) => Figure>> = {
  stream: (isSmall) => (isSmall ? stream(10, 20, 2) : stream(10_000, 18_000, 60)),
  upgrades: (isSmall) => upgrades(isSmall ? 100 : 10_000),
  submissions: (isSmall) => (isSmall ? submissions(4, 1) : submissions(32, 8)),
  tasks: (isSmall) => tasks(isSmall ? 500 : 50_000),
  durable: (isSmall) => durableTasks(isSmall ? 200 : 20_000),
  shapes: (isSmall) => shapes(isSmall ? 200 : 100_000),
  scheduled: (isSmall) => (isSmall ? scheduled(2000, 1) : scheduled(1_000_000, 20)),
  flood: (isSmall) => (isSmall ? flood(20, 4) : flood(1000, 20)),
  storm: (isSmall) => (isSmall ? storm(20, 2) : storm(10_000, 100)),
  nodes: (isSmall) => nodes(isSmall ? 200 : 10_000),
};

const known = Object.keys(figures);
const names = positionals.length > 0 ? positionals : known;
const unknown = names.find((name) => figures[name] === undefined);
if (unknown !== undefined) {
  console.error(`there is no figure ${unknown}, only ${known.join(', ')}`);
  process.exit(1);
}

const report: object[] = [];
for (const name of names) {
  const figure = (figures[name] as (isSmall: boolean) => Figure)(values.smoke);
  console.log(`\n${figure.name}`);
  const measured = await measure(figure, Number(values.runs));
  const rows = figure.readings.map((reading) => evaluate(reading, measured));
  console.table(Object.fromEntries(rows.map(({ reading, ...row }) => [reading, row])));
  report.push({ figure: figure.name, contenders: Object.fromEntries(measured), readings: rows });
}
const machine = { cpu: cpus()[0]?.model, cores: cpus().length, memory: totalmem(), node: process.version };
await writeFile(values.json, `${JSON.stringify({ machine, date: new Date().toISOString(), report }, null, 2)}\n`);
console.log(`\nall values: ${values.json}`);

/** Contenders take turns, so that a machine that grows slow is slow for all. Nothing that one has started is left. */
async function measure({ contenders }: Figure, runs: number): Promise<Measured> {
  const measured: Measured = new Map(Object.keys(contenders).map((name) => [name, []]));
  for (let run = 1; run <= runs; run++) {
    for (const [name, once] of Object.entries(contenders)) {
      process.stderr.write(`  run ${run} of ${runs}: ${name}\u001b[K\r`);
      measured.get(name)?.push(await once().finally(mochaHooks.afterEach));
    }
  }
  process.stderr.write('\u001b[K');
  return measured;
}

function evaluate({ name, key, unit, of = 'product', beside, target }: Reading, measured: Measured) {
  const valuesOf = (contender: string) => (measured.get(contender) ?? []).map((each) => each[key] ?? Number.NaN);
  const read = (contender: string) => median(valuesOf(contender));
  const own = read(of);
  const ratio = beside === undefined ? undefined : own / read(beside);
  // The product with other settings is a contender, too: it is read by name only.
  const peers = beside === undefined ? [] : [...measured.keys()].filter((peer) => !peer.startsWith('product'));
  const spread = own === 0 ? 0 : (Math.max(...valuesOf(of)) - Math.min(...valuesOf(of))) / own;
  return {
    reading: unit === undefined ? name : `${name}, ${unit}`,
    product: round(own),
    spread: `${Math.round(spread * 100)} %`,
    ...Object.fromEntries(peers.map((peer) => [peer, round(read(peer))])),
    ...(ratio !== undefined && { [`ratio to ${beside}`]: round(ratio) }),
    ...(target && judge(ratio ?? own, target)),
  };
}

function judge(value: number, target: Target): { target: string; met: boolean } {
  if ('atMost' in target) return { target: `<= ${target.atMost}`, met: value <= target.atMost };
  return { target: `>= ${target.atLeast}`, met: value >= target.atLeast };
}

function round(value: number): number {
  return Number(value.toPrecision(3));
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = (sorted.length - 1) / 2;
  return ((sorted[Math.floor(middle)] as number) + (sorted[Math.ceil(middle)] as number)) / 2;
}
