/** `npm run hostile`: attacks real processes while well-behaved clients, the neighbours, measure the effects. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { mochaHooks } from '../support/cleanup.ts';
import { ProvingGround, type Result } from './proving-ground.ts';
import { scenarioNamed, scenarios } from './scenarios/all.ts';
import { leftOf } from './verdict.ts';

const USAGE = `npm run hostile -- [options] [scenario or group ...]

  --json     print the results as JSON at the end
  --list     list the scenarios
  --help     this text

HOSTILE_SECONDS  seconds of each attack (5)
HOSTILE_SEED     what is random follows it (another one at each run)

Ends with exit code 1 when a bound is broken.
`;

const flag = { type: 'boolean', default: false } as const;
const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: flag, list: flag, help: flag } });
/** With `--json`, standard output carries only the JSON report. */
const say = values.json ? console.error : console.log;

if (values.help) console.log(USAGE);
else if (values.list) for (const { group, name } of scenarios) console.log(`${group.padEnd(14)}${name}`);
else process.exitCode = await main();

async function main(): Promise<number> {
  const seed = Number(process.env.HOSTILE_SEED || randomInt(2 ** 31));
  const seconds = Number(process.env.HOSTILE_SECONDS || 5);
  const chosen = scenarios.filter(
    ({ name, group }) => positionals.length === 0 || positionals.includes(name) || positionals.includes(group),
  );
  for (const name of positionals) if (!chosen.some(({ group }) => group === name)) scenarioNamed(name);
  say(`HOSTILE_SEED=${seed} HOSTILE_SECONDS=${seconds}\n`);
  const results: Result[] = [];
  try {
    const ground = new ProvingGround({ seed, seconds });
    say(line(await ground.measureBaseline()));
    for (const scenario of chosen) {
      const result = await ground.run(scenario);
      results.push(result);
      say(line(result));
      say(`    ${outcomes(result)}`);
      for (const bound of result.broken) say(`    BROKEN ${bound}`);
    }
  } finally {
    await mochaHooks.afterEach();
  }
  if (values.json) console.log(JSON.stringify(results));
  return report(results, seed);
}

function report(results: readonly Result[], seed: number): number {
  const failed = results.filter(({ broken }) => broken.length > 0);
  say(`\n${results.length - failed.length} of ${results.length} scenarios held their bounds.`);
  say(
    'The bounds of latencies are 100 ms for ticks and 250 ms for health answers, or twice the delays of the machine.',
  );
  for (const { name } of failed) say(`broken: HOSTILE_SEED=${seed} npm run hostile -- ${name}`);
  return failed.length > 0 ? 1 : 0;
}

/** Formats the observations of a scenario, the latencies with their bounds. */
function line({ name, bounds, observed, seconds }: Result): string {
  const { sight, actions, before, after, peakMib } = observed;
  const left = leftOf(observed, bounds);
  const { tickMs, healthMs, submitMs, machineMs, accepted } = sight;
  const ofBound = (value: number, bound: number) =>
    `${value.toFixed(0)}/${Number.isFinite(bound) ? bound.toFixed(0) : '-'} ms`;
  const cells = [
    `${name}: sent ${actions}, accepted ${(accepted / sight.seconds).toFixed(1)}/s`,
    `tick ${ofBound(tickMs, bounds.tickMs)}, health ${ofBound(healthMs, bounds.healthMs)}, submit ${submitMs.toFixed(0)} ms`,
    `peak ${peakMib.toFixed(0)} MiB, kept ${left.memory.toFixed(1)} MiB, resident ${left.resident.toFixed(0)} MiB`,
    `${after.descriptors - before.descriptors} descriptors, machine ${machineMs.toFixed(0)} ms, ${seconds.toFixed(1)} s`,
  ];
  return cells.join('; ');
}

/** Formats the outcomes of an attack, the most frequent first. */
function outcomes({ observed }: Result): string {
  const sorted = Object.entries(observed.outcomes).sort(([, one], [, other]) => other - one);
  return sorted.map(([outcome, count]) => `${count} × ${outcome}`).join(', ');
}
