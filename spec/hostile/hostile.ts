/** `npm run hostile`: attacks real processes while well-behaved clients, the neighbours, measure the effects. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { mochaHooks } from '../support/cleanup.ts';
import { attackAll, type Result } from './proving-ground.ts';
import { scenarioNamed, scenarios } from './scenarios/all.ts';
import { leftOf } from './verdict.ts';

const USAGE = `npm run hostile -- [options] [scenario or group ...]

  --list     list the scenarios
  --help     this text

HOSTILE_SECONDS  seconds of each attack (5)
HOSTILE_SEED     what is random follows it (another one at each run)

The bounds of latencies are 100 ms for ticks and 250 ms for health answers, or
twice those of the machine. Ends with exit code 1 when a bound is broken.
`;

const flag = { type: 'boolean', default: false } as const;
const { values, positionals } = parseArgs({ allowPositionals: true, options: { list: flag, help: flag } });
if (values.help) console.log(USAGE);
else if (values.list) for (const { group, name } of scenarios) console.log(`${group.padEnd(14)}${name}`);
else process.exitCode = await main().finally(mochaHooks.afterEach);

async function main(): Promise<number> {
  const seed = Number(process.env.HOSTILE_SEED || randomInt(2 ** 31));
  const seconds = Number(process.env.HOSTILE_SECONDS || 5);
  const groups = Object.groupBy(scenarios, ({ group }) => group);
  const named = positionals.flatMap((name) => groups[name] ?? scenarioNamed(name));
  const chosen = positionals.length === 0 ? scenarios : scenarios.filter((scenario) => named.includes(scenario));
  console.log(`HOSTILE_SEED=${seed} HOSTILE_SECONDS=${seconds}\n`);
  const failed: string[] = [];
  for await (const result of attackAll(chosen, seed, seconds)) {
    console.log(report(result));
    if (result.broken.length > 0) failed.push(`broken: HOSTILE_SEED=${seed} npm run hostile -- ${result.name}`);
  }
  console.log(`\n${chosen.length - failed.length} of ${chosen.length} scenarios held their bounds.`);
  for (const line of failed) console.log(line);
  return failed.length > 0 ? 1 : 0;
}

function report({ name, bounds, observed, seconds, broken }: Result): string {
  const { sight, actions, outcomes, before, after, peakMib } = observed;
  const left = leftOf(observed, bounds);
  const { tickMs, healthMs, submitMs, machineMs, accepted } = sight;
  const cells = [
    `${name}: sent ${actions}, accepted ${(accepted / sight.seconds).toFixed(1)}/s`,
    `tick ${tickMs.toFixed(0)}/${bounds.tickMs.toFixed(0)} ms, health ${healthMs.toFixed(0)}/${bounds.healthMs.toFixed(0)} ms`,
    `submit ${submitMs.toFixed(0)} ms, machine ${machineMs.toFixed(0)} ms, ${seconds.toFixed(1)} s`,
    `peak ${peakMib.toFixed(0)} MiB, kept ${left.memory.toFixed(1)} MiB, resident ${left.resident.toFixed(0)} MiB`,
    `${after.descriptors - before.descriptors} descriptors`,
  ];
  const sorted = Object.entries(outcomes).sort(([, one], [, other]) => other - one);
  const counts = sorted.map(([outcome, count]) => `${count} × ${outcome}`).join(', ');
  return [cells.join('; '), `    ${counts}`, ...broken.map((bound) => `    BROKEN ${bound}`)].join('\n');
}
