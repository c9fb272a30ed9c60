/** `npm run simulate`: runs the product in a simulated world, and checks its guarantees. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { simulate } from './seed.ts';
import { shrink } from './shrink.ts';
import type { SimulationOptions } from './simulation.ts';
import { faultSets } from './steps.ts';
import type { Violation } from './world.ts';

const DEFAULT_URL = 'postgres://127.0.0.1:5432/test';
const databaseUrl = process.env.DATABASE_URL ?? DEFAULT_URL;

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

interface Plan extends Pick<SimulationOptions, 'seed' | 'steps' | 'faults'> {
  runs: number;
  minutes: number | undefined;
  only: readonly number[] | undefined;
  postgres: boolean;
  /** Whether to print the log of one run. */
  isSingle: boolean;
}

export class UsageError extends Error {}

if (import.meta.main) process.exitCode = await main();

async function main(): Promise<number> {
  try {
    const plan = planFrom(process.argv.slice(2));
    if (plan !== undefined) return plan.isSingle || plan.postgres ? await runHere(plan) : await runMany(plan);
    console.log(USAGE);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(error.message);
    return 2;
  }
}

/** @throws {UsageError} with a message that says what to change */
export function planFrom(args: string[]): Plan | undefined {
  const { values } = parse(args);
  if (values.help) return undefined;
  const whole = (name: 'seed' | 'runs' | 'steps' | 'minutes', least: number): number | undefined => {
    const text = values[name];
    if (text === undefined) return undefined;
    const number = Number(text);
    const isValid =
      text.trim() !== '' && (name === 'minutes' ? number > 0 : Number.isSafeInteger(number) && number >= least);
    if (!isValid) throw new UsageError(`--${name} ${text}: use a number from ${least} up, for example --${name} 100`);
    return number;
  };
  const faults = faultSets.find((set) => set === (values.faults ?? 'all'));
  if (faults === undefined) throw new UsageError(`--faults ${values.faults}: use one of ${faultSets.join(', ')}`);
  const only = values.only?.split(',').map(Number);
  if (only?.some((step) => !Number.isSafeInteger(step))) {
    throw new UsageError(`--only ${values.only}: use the numbers of steps, for example --only 3,17`);
  }
  const [seed, runs, minutes] = [whole('seed', 0), whole('runs', 1), whole('minutes', 0)];
  if (only !== undefined && seed === undefined) throw new UsageError('--only needs the seed: add --seed N');
  return {
    seed: seed ?? randomInt(2 ** 31),
    runs: runs ?? (minutes === undefined ? 100 : Number.POSITIVE_INFINITY),
    minutes,
    steps: whole('steps', 1) ?? 1000,
    faults,
    only,
    postgres: values.postgres === true,
    isSingle: seed !== undefined && runs === undefined && minutes === undefined,
  };
}

function parse(args: string[]) {
  const text = { type: 'string' } as const;
  const options = { seed: text, runs: text, minutes: text, steps: text, faults: text, only: text };
  try {
    return parseArgs({ args, options: { ...options, postgres: { type: 'boolean' }, help: { type: 'boolean' } } });
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split('.')[0]}: --help lists the options`);
  }
}

/** Runs one seed, or several on a real server. Prints the log of a single run, or of a failure. */
async function runHere({ seed: first, runs, minutes, steps, faults, only, isSingle, postgres }: Plan): Promise<number> {
  const run = postgres ? (await import('./postgres.ts')).simulateOnPostgres : simulate;
  const endsAt = minutes === undefined ? Number.POSITIVE_INFINITY : performance.now() + minutes * 60_000;
  for (let seed = first; seed < first + (isSingle ? 1 : runs) && performance.now() < endsAt; seed += 1) {
    const log: string[] = [];
    const note = isSingle ? console.log : (line: string) => void log.push(line);
    const { violation } = await run({ seed, steps, faults, only: only && new Set(only), note }, databaseUrl);
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
async function runMany(plan: Plan): Promise<number> {
  const { seed: first, runs, minutes, steps, faults } = plan;
  const startedAt = performance.now();
  const endsAt = minutes === undefined ? Number.POSITIVE_INFINITY : startedAt + minutes * 60_000;
  const seconds = () => (performance.now() - startedAt) / 1000;
  let [next, done] = [first, 0];
  const failures: { seed: number; violation: Violation }[] = [];
  const progress = () => console.log(`${done} runs, ${(done / seconds()).toFixed(1)} a second`);
  const ticking = setInterval(progress, 10_000);
  console.log(`seeds from ${first}, ${steps} steps each, faults: ${faults}`);
  const runThread = async () => {
    const thread = new Worker(new URL('simulate-thread.ts', import.meta.url), { workerData: { steps, faults } });
    try {
      while (failures.length === 0 && next < first + runs && performance.now() < endsAt) {
        const seed = next++;
        thread.postMessage(seed);
        // Rejects at an error of the thread.
        const [violation] = await once(thread, 'message').catch((error: Error) => {
          throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
        });
        done += 1;
        if (violation !== undefined) failures.push({ seed, violation });
      }
    } finally {
      const ended = once(thread, 'exit');
      thread.postMessage('end');
      await ended;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, runThread)).finally(() => clearInterval(ticking));
  progress();
  const [failure] = failures.sort((one, other) => one.seed - other.seed);
  if (failure === undefined) return 0;
  await explain(plan, failure.seed, failure.violation);
  return 1;
}

/** Prints the shortest history that breaks the same rule. */
async function explain({ steps, faults }: Plan, seed: number, { rule, detail }: Violation): Promise<void> {
  console.log(`\nseed ${seed} breaks a guarantee\n  rule: ${rule}\n  ${detail}\nleaving out steps ...`);
  const run = (only?: readonly number[], note?: (line: string) => void) =>
    simulate({ seed, steps, faults, only: only && new Set(only), ...(note && { note }) });
  const { ran } = await run();
  const kept = await shrink(ran, async (only) => (await run(only)).violation?.rule === rule);
  console.log(`the shortest history found, ${kept.length} of ${ran.length} steps:\n`);
  const { violation } = await run(kept, console.log);
  console.log(`\nrule: ${rule}\n${violation?.detail ?? detail}\n`);
  const only = kept.length === 0 ? '' : ` --only ${kept.join(',')}`;
  console.log(`repeat it with: npm run simulate -- --seed ${seed} --steps ${steps} --faults ${faults}${only}`);
}
