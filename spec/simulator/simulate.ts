/** `npm run simulate`: runs the product in a simulated world, and checks its guarantees. */
import { randomInt } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Piscina } from 'piscina';
import { simulateFile } from './disk.ts';
import { simulateNodes } from './nodes.ts';
import { type FaultSet, faultSets, type SimulationOptions, type SimulationResult } from './world.ts';

const DEFAULT_URL = 'postgres://127.0.0.1:5432/test';

const [text, flag] = [{ type: 'string' }, { type: 'boolean' }] as const;
const texts = { seed: text, runs: text, minutes: text, steps: text, faults: text, only: text };
const OPTIONS = { ...texts, postgres: flag, help: flag };

const USAGE = `npm run simulate -- [options]

  --seed N      run one seed and print its log; with --runs, the first of several seeds
  --runs N      number of seeds to run (100)
  --minutes N   run seeds for so many minutes instead
  --steps N     steps of each run (1000)
  --faults SET  ${faultSets.join(', ')} (all)
  --postgres    run several nodes on the server at DATABASE_URL, or at ${DEFAULT_URL}
  --only N,N    run only these steps of a seed, as a failure prints them
  --help        this text

Ends with exit code 1 when a guarantee is broken.
`;

const MAX_SHRINKING_RUNS = 300;

type Plan = NonNullable<ReturnType<typeof planFrom>>;

if (import.meta.main) process.exitCode = await main();

/** Runs one seed. With all faults, every fourth seed has several nodes. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  if (options.databaseUrl !== undefined) return (await import('./postgres.ts')).simulateOnPostgres(options);
  const isSeveral = options.faults === 'nodes' || (options.faults === 'all' && options.seed % 4 === 0);
  return isSeveral ? simulateNodes(options) : simulateFile(options);
}

async function main(): Promise<number> {
  let plan: ReturnType<typeof planFrom>;
  try {
    plan = planFrom(process.argv.slice(2));
  } catch (error) {
    console.error((error as Error).message);
    return 2;
  }
  if (plan?.isSingle) return report(plan.seed, (await simulate({ ...plan, note: console.log })).violation);
  if (plan !== undefined) return await runAll(plan);
  console.log(USAGE);
  return 0;
}

/** @throws {Error} with a message that says what to change */
export function planFrom(args: string[]) {
  const { values } = parseArgs({ args, options: OPTIONS });
  if (values.help) return undefined;
  const number = (name: 'seed' | 'runs' | 'steps' | 'minutes', least: number): number | undefined => {
    const text = values[name];
    if (text === undefined) return undefined;
    const value = Number(text.trim() || 'none');
    if (value >= least && (name === 'minutes' || Number.isSafeInteger(value))) return value;
    throw new Error(`--${name} ${text}: use a number from ${least} up, for example --${name} 100`);
  };
  const faults = faultSets.find((set) => set === (values.faults ?? 'all'));
  if (faults === undefined) throw new Error(`--faults ${values.faults}: use one of ${faultSets.join(', ')}`);
  const only = values.only?.split(',').map(Number);
  if (only?.every(Number.isSafeInteger) === false)
    throw new Error(`--only ${values.only}: use the numbers of steps, for example --only 3,17`);
  const [seed, runs, minutes] = [number('seed', 0), number('runs', 1), number('minutes', 0)];
  const isSingle = seed !== undefined && runs === undefined && minutes === undefined;
  if (only !== undefined && !isSingle)
    throw new Error('--only needs a single seed: use --seed N without --runs and --minutes');
  return {
    ...{ isSingle, faults, only: only && new Set(only) },
    databaseUrl: values.postgres ? (process.env.DATABASE_URL ?? DEFAULT_URL) : undefined,
    seed: seed ?? randomInt(2 ** 31),
    runs: runs ?? (minutes === undefined ? 100 : Number.POSITIVE_INFINITY),
    endsAt: performance.now() + (minutes ?? Number.POSITIVE_INFINITY) * 60_000,
    steps: number('steps', 1) ?? 1000,
  };
}

function report(seed: number, violation: SimulationResult['violation']): number {
  if (violation === undefined) {
    console.log(`seed ${seed} holds all guarantees`);
    return 0;
  }
  console.log(`seed ${seed} breaks a guarantee\n  rule: ${violation.rule}\n  ${violation.detail}\n`);
  return 1;
}

/** Runs seeds until one fails: in one thread per core, or one after another on a real server. */
async function runAll({ seed: first, runs, endsAt, ...settings }: Plan): Promise<number> {
  const { steps, faults, databaseUrl } = settings;
  const startedAt = performance.now();
  const failed: number[] = [];
  let [next, done] = [first, 0];
  const progress = () => {
    const rate = (done / (performance.now() - startedAt)) * 1000;
    console.log(`${done} runs, ${rate.toFixed(1)} a second`);
  };
  const ticking = setInterval(progress, 10_000);
  console.log(`seeds from ${first}, ${steps} steps each, faults: ${faults}`);
  const threads = databaseUrl === undefined ? availableParallelism() : 1;
  const size = { minThreads: threads, maxThreads: threads };
  const pool = new Piscina<SimulationOptions>({ filename: import.meta.url, name: runSeed.name, ...size });
  const runThread = async () => {
    while (failed.length === 0 && next < first + runs && performance.now() < endsAt) {
      const seed = next++;
      const hasFailed = await pool.run({ seed, steps, faults, databaseUrl }).catch((error: Error) => {
        throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
      });
      done += 1;
      if (hasFailed) failed.push(seed);
    }
  };
  await Promise.all(Array.from({ length: threads }, runThread)).finally(async () => {
    clearInterval(ticking);
    await pool.destroy();
  });
  progress();
  if (failed.length > 0 && databaseUrl === undefined) await explain(Math.min(...failed), steps, faults);
  return Math.sign(failed.length);
}

/** Runs a seed in a thread of the pool. Returns whether it has failed. */
export async function runSeed(options: SimulationOptions): Promise<boolean> {
  // The product makes errors by the thousand.
  Error.stackTraceLimit = 0;
  const log: string[] = [];
  // A failure on a real server cannot be repeated.
  const note = options.databaseUrl && ((line: string) => log.push(line));
  const { violation } = await simulate({ ...options, ...(note && { note }) });
  if (violation !== undefined) for (const line of log) console.log(line);
  if (note) report(options.seed, violation);
  return violation !== undefined;
}

async function explain(seed: number, steps: number, faults: FaultSet): Promise<void> {
  const run = (only?: readonly number[], note?: SimulationOptions['note']) =>
    simulate({ seed, steps, faults, only: only && new Set(only), note });
  const { ran, violation } = await run();
  report(seed, violation);
  console.log('leaving out steps ...');
  const kept = await shrink(ran, async (only) => (await run(only)).violation?.rule === violation?.rule);
  console.log(`the shortest history found, ${kept.length} of ${ran.length} steps:\n`);
  report(seed, (await run(kept, console.log)).violation);
  const only = kept.length === 0 ? '' : ` --only ${kept.join(',')}`;
  console.log(`repeat it with: npm run simulate -- --seed ${seed} --steps ${steps} --faults ${faults}${only}`);
}

/** Leaves out steps as long as the rest still fails (delta debugging). */
export async function shrink(
  steps: readonly number[],
  fails: (steps: readonly number[]) => Promise<boolean>,
): Promise<readonly number[]> {
  let [kept, runs] = [steps, 0];
  for (let size = Math.ceil(kept.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let start = kept.length - size; start > -size && runs < MAX_SHRINKING_RUNS; start -= size) {
      const rest = [...kept.slice(0, Math.max(0, start)), ...kept.slice(start + size)];
      runs += 1;
      if (!(await fails(rest))) continue;
      kept = rest;
      // Steps that were needed may be superfluous without later ones.
      if (size === 1) start = kept.length;
    }
  }
  return kept;
}
