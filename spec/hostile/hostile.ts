/** `npm run hostile`: attacks real processes while well-behaved clients, the neighbours, measure the effects. */
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { mochaHooks } from '../support/cleanup.ts';
import { ProvingGround, type Result } from './proving-ground.ts';
import { scenarioNamed, scenarios } from './scenarios/all.ts';
import { lackingFor } from './target.ts';
import { leftOf } from './verdict.ts';

const USAGE = `npm run hostile -- [options] [scenario or group ...]

  --json     print the results as JSON at the end
  --list     list the scenarios
  --help     this text

HOSTILE_SECONDS  seconds of each attack (5)
HOSTILE_SEED     what is random follows it (another one at each run)

Ends with exit code 1 when a bound is broken.
`;

/** Heading of the lines of {@link line}. */
const heading =
  'scenario                      sent     accepted/s  tick ms      health ms    submit ms  peak MiB  kept MiB  resident MiB  fds  machine ms  s';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
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
  say(`HOSTILE_SEED=${seed} HOSTILE_SECONDS=${seconds}\n\n${heading}`);
  const results: Result[] = [];
  try {
    const ground = new ProvingGround({ seed, seconds });
    say(line(await ground.measureBaseline()));
    for (const scenario of chosen) {
      const lacking = lackingFor(scenario.setup ?? {});
      if (lacking !== undefined) {
        say(`${scenario.name}: skipped, ${lacking}`);
        continue;
      }
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
    'Latencies are shown with their bounds: 100 ms for ticks and 250 ms for health answers, or twice the delays of the',
  );
  say('machine (without an attack, or of the neighbours themselves: the last column) where those are longer.');
  for (const { name } of failed) say(`broken: HOSTILE_SEED=${seed} npm run hostile -- ${name}`);
  return failed.length > 0 ? 1 : 0;
}

/** Formats the observations of a scenario as one line, with bounds beside the latencies. */
function line({ name, bounds, observed, seconds }: Result): string {
  const { sight, actions, before, after, peakMib } = observed;
  const left = leftOf(observed, bounds);
  const { tickMs, healthMs, submitMs, machineMs, accepted } = sight;
  const ofBound = (value: number, bound: number) =>
    `${value.toFixed(0)}/${Number.isFinite(bound) ? bound.toFixed(0) : '-'}`;
  const cells: [string, number][] = [
    [name, 30],
    [`${actions}`, 9],
    [(accepted / sight.seconds).toFixed(1), 12],
    [ofBound(tickMs, bounds.tickMs), 13],
    [ofBound(healthMs, bounds.healthMs), 13],
    [submitMs.toFixed(0), 11],
    [peakMib.toFixed(0), 10],
    [left.memory.toFixed(1), 10],
    [left.resident.toFixed(0), 14],
    [`${after.descriptors - before.descriptors}`, 5],
    [machineMs.toFixed(0), 12],
    [seconds.toFixed(1), 0],
  ];
  return cells
    .map(([text, width]) => text.padEnd(width))
    .join('')
    .trimEnd();
}

/** Formats the outcomes of an attack, the most frequent first. */
function outcomes({ observed }: Result): string {
  const sorted = Object.entries(observed.outcomes).sort(([, one], [, other]) => other - one);
  return sorted.map(([outcome, count]) => `${count} × ${outcome}`).join(', ');
}
