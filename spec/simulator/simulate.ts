/** `npm run simulate`: runs the product in a simulated world, and checks its guarantees. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { simulateFile } from './file.ts';
import { simulateNodes } from './nodes.ts';
import { shrink } from './shrink.ts';
import type { SimulationOptions, SimulationResult } from './simulation.ts';
import { faultSets } from './steps.ts';

const DEFAULT_URL = 'postgres://127.0.0.1:5432/test';

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

type Settings = Pick<SimulationOptions, 'steps' | 'faults'>;
type Plan = NonNullable<ReturnType<typeof planFrom>>;

export class UsageError extends Error {}

if (!isMainThread) runSeeds(workerData as Settings);
else if (import.meta.main) process.exitCode = await main();

/** Runs one seed. With all faults, every fourth seed has several nodes. */
export function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const isSeveral = options.faults === 'nodes' || (options.faults === 'all' && options.seed % 4 === 0);
  return isSeveral ? simulateNodes(options) : simulateFile(options);
}

async function main(): Promise<number> {
  try {
    const plan = planFrom(process.argv.slice(2));
    if (plan !== undefined) return await (plan.isSingle || plan.postgres ? runHere : runInThreads)(plan);
    console.log(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    return 2;
  }
}

/** @throws {UsageError} with a message that says what to change */
export function planFrom(args: string[]) {
  const values = parse(args);
  if (values.help) return undefined;
  const number = (name: 'seed' | 'runs' | 'steps' | 'minutes', least: number): number | undefined => {
    const text = values[name];
    if (text === undefined) return undefined;
    const value = Number(text.trim() || 'none');
    if (value >= least && (name === 'minutes' || Number.isSafeInteger(value))) return value;
    throw new UsageError(`--${name} ${text}: use a number from ${least} up, for example --${name} 100`);
  };
  const faults = faultSets.find((set) => set === (values.faults ?? 'all'));
  if (faults === undefined) throw new UsageError(`--faults ${values.faults}: use one of ${faultSets.join(', ')}`);
  const only = values.only?.split(',').map(Number);
  if (only?.some((step) => !Number.isSafeInteger(step)))
    throw new UsageError(`--only ${values.only}: use the numbers of steps, for example --only 3,17`);
  const [seed, runs, minutes] = [number('seed', 0), number('runs', 1), number('minutes', 0)];
  if (only !== undefined && seed === undefined) throw new UsageError('--only needs the seed: add --seed N');
  return {
    /** The first seed. */
    seed: seed ?? randomInt(2 ** 31),
    runs: runs ?? (minutes === undefined ? 100 : Number.POSITIVE_INFINITY),
    minutes: minutes ?? Number.POSITIVE_INFINITY,
    steps: number('steps', 1) ?? 1000,
    ...{ faults, only: only && new Set(only), postgres: values.postgres === true },
    /** Whether to print the log of one run. */
    isSingle: seed !== undefined && runs === undefined && minutes === undefined,
  };
}

function parse(args: string[]) {
  const text = { type: 'string' } as const;
  const flag = { type: 'boolean' } as const;
  const numbers = { seed: text, runs: text, minutes: text, steps: text };
  try {
    return parseArgs({ args, options: { ...numbers, faults: text, only: text, postgres: flag, help: flag } }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split('.')[0]}: --help lists the options`);
  }
}

/** Runs one seed, or several on a real server. Prints the log of a single run, or of a failure. */
async function runHere({ seed: first, runs, minutes, steps, faults, only, isSingle, postgres }: Plan): Promise<number> {
  const databaseUrl = process.env.DATABASE_URL ?? DEFAULT_URL;
  const run = postgres ? (await import('./postgres.ts')).simulateOnPostgres : simulate;
  const endsAt = performance.now() + minutes * 60_000;
  for (let seed = first; seed < first + (isSingle ? 1 : runs) && performance.now() < endsAt; seed += 1) {
    const log: string[] = [];
    const note = isSingle ? console.log : (line: string) => void log.push(line);
    const { violation } = await run({ seed, steps, faults, only, note }, databaseUrl);
    if (violation !== undefined) {
      const { rule, detail } = violation;
      console.log([...log, `seed ${seed} breaks a guarantee`, `  rule: ${rule}`, `  ${detail}`].join('\n'));
      return 1;
    }
    console.log(`seed ${seed} holds all guarantees`);
  }
  return 0;
}

/** Runs many seeds in one thread per core, until one fails. */
async function runInThreads({ seed: first, runs, minutes, steps, faults }: Plan): Promise<number> {
  const startedAt = performance.now();
  const failed: number[] = [];
  let [next, done] = [first, 0];
  const progress = () => {
    const seconds = (performance.now() - startedAt) / 1000;
    console.log(`${done} runs, ${(done / seconds).toFixed(1)} a second`);
  };
  const isOver = () => failed.length > 0 || next >= first + runs || performance.now() >= startedAt + minutes * 60_000;
  const ticking = setInterval(progress, 10_000);
  console.log(`seeds from ${first}, ${steps} steps each, faults: ${faults}`);
  const runThread = async () => {
    const thread = new Worker(new URL(import.meta.url), { workerData: { steps, faults } satisfies Settings });
    try {
      while (!isOver()) {
        const seed = next++;
        thread.postMessage(seed);
        // Rejects at an error of the thread.
        const [hasFailed] = await once(thread, 'message').catch((error: Error) => {
          throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
        });
        done += 1;
        if (hasFailed) failed.push(seed);
      }
    } finally {
      await thread.terminate();
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runThread)).finally(() => clearInterval(ticking));
  progress();
  if (failed.length === 0) return 0;
  await explain(Math.min(...failed), { steps, faults });
  return 1;
}

/** Runs the seeds that the main thread sends, in a thread of its own, and answers whether each has failed. */
function runSeeds(settings: Settings): void {
  // The product makes errors by the thousand.
  Error.stackTraceLimit = 0;
  parentPort?.on('message', async (seed: number) => {
    const { violation } = await simulate({ seed, ...settings });
    parentPort?.postMessage(violation !== undefined);
  });
}

/** Prints the shortest history that breaks the same rule. */
async function explain(seed: number, { steps, faults }: Settings): Promise<void> {
  const run = (only?: readonly number[], note?: (line: string) => void) =>
    simulate({ seed, steps, faults, only: only && new Set(only), note });
  const { ran, violation } = await run();
  const print = (which: typeof violation) => console.log(`  rule: ${which?.rule}\n  ${which?.detail}\n`);
  console.log(`\nseed ${seed} breaks a guarantee`);
  print(violation);
  console.log('leaving out steps ...');
  const kept = await shrink(ran, async (only) => (await run(only)).violation?.rule === violation?.rule);
  console.log(`the shortest history found, ${kept.length} of ${ran.length} steps:\n`);
  print((await run(kept, console.log)).violation);
  const only = kept.length === 0 ? '' : ` --only ${kept.join(',')}`;
  console.log(`repeat it with: npm run simulate -- --seed ${seed} --steps ${steps} --faults ${faults}${only}`);
}
