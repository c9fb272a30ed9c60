/** `npm run load`: connects many clients to a running ticker, shows live measurements, and reports a result. */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Crowd } from './crowd.ts';
import type { TickReport } from './tick-record.ts';

const USAGE = `npm run load -- [options]

  --connections <n>      clients (1000)
  --duration <s>         measured time, after all clients have connected (30)
  --concurrency <n>      maximum number of concurrent handshakes (200)
  --url <url>            URL of the ticker (http://127.0.0.1:8081)
  --key <key>            API key (the demo user's key in DATA_DIR, default: data)
  --max-missed <n>       maximum number of missed ticks, of all clients together (0)
  --max-lost <n>         maximum number of connections that fail or are lost (0)
  --max-skew <ms>        maximum time between the first and the last client to receive a tick, p99 (none)
  --max-lateness <ms>    maximum time from a tick to its arrival, p99 (none); the clocks must agree

The exit code is 1 if a limit is exceeded.
`;

const options = {
  connections: { type: 'string', default: '1000' },
  duration: { type: 'string', default: '30' },
  concurrency: { type: 'string', default: '200' },
  url: { type: 'string', default: 'http://127.0.0.1:8081' },
  key: { type: 'string' },
  'max-missed': { type: 'string', default: '0' },
  'max-lost': { type: 'string', default: '0' },
  'max-skew': { type: 'string' },
  'max-lateness': { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

class UsageError extends Error {}

await main().catch((error: Error) => {
  console.error(error instanceof UsageError ? error.message : error);
  process.exitCode = 1;
});

async function main(): Promise<void> {
  const values = readArguments();
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const positive = (name: 'connections' | 'duration' | 'concurrency') =>
    numeric(name, values[name], (number) => Number.isSafeInteger(number) && number > 0, 'whole number of at least 1');
  const [connections, duration, concurrency] = [positive('connections'), positive('duration'), positive('concurrency')];
  const limits = (['missed', 'lost', 'skew', 'lateness'] as const).map((name) => {
    const { [`max-${name}` as const]: text = 'Infinity' } = values;
    return [name, numeric(`max-${name}`, text, (number) => number >= 0, 'number of at least 0')] as const;
  });
  const url = readUrl(values.url);
  const token = await exchange(url, values.key ?? demoKey());

  const target = { host: url.hostname, port: Number(url.port || 80), path: '/ws/ticker', token };
  const crowd = new Crowd({ target, connections, concurrency });
  process.once('SIGINT', () => {
    crowd.disperse();
    process.exit(130);
  });
  const gathered = crowd.gather();
  await watch(gathered, () => `connecting ${bar(crowd.size / connections)} ${crowd.size} of ${connections}`);
  crowd.startOver();
  const begun = performance.now();
  const elapsed = () => (performance.now() - begun) / 1000;
  await watch(setTimeout(duration * 1000), () => {
    const { received, missed } = crowd.record;
    const share = Math.min(1, elapsed() / duration);
    return `${bar(share)} ${elapsed().toFixed(0)} s  ${crowd.size} open  ${received} ticks  ${missed} missed  ${crowd.lost} lost`;
  });
  const lacking = await crowd.catchUp(1000);
  const report = crowd.record.report();
  report.missed += lacking;
  print(report, crowd, connections);
  const { lost } = crowd;
  crowd.disperse();

  const measured = { missed: report.missed, lost, skew: report.skew.p99, lateness: report.lateness.p99 };
  const broken = limits
    .filter(([name, limit]) => measured[name] > limit)
    .map(([name, limit]) => `limit broken: ${name} ${measured[name].toFixed(1)} is over ${limit}`);
  if (report.received === 0) broken.push('no tick was received');
  for (const line of broken) console.error(line);
  if (broken.length > 0) process.exitCode = 1;
}

function readArguments() {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n\n${USAGE}`);
  }
}

function numeric(name: string, text: string, fits: (number: number) => boolean, what: string): number {
  const number = Number(text);
  if (text !== '' && fits(number)) return number;
  throw new UsageError(`--${name} must be a ${what}, got ${JSON.stringify(text)}`);
}

function readUrl(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol === 'http:' || url?.protocol === 'ws:') return url;
  throw new UsageError(`--url must be like http://127.0.0.1:8081, got ${JSON.stringify(text)}`);
}

function demoKey(): string {
  const path = join(process.env.DATA_DIR || 'data', 'auth.db');
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    const row = database.prepare("SELECT api_key FROM api_keys WHERE user_id = 'demo'").get();
    database.close();
    if (row !== undefined) return row.api_key as string;
  } catch {
    // Reported by the error below.
  }
  throw new UsageError(`there is no key of the demo user in ${path}: give one with --key, or set DATA_DIR`);
}

async function exchange(url: URL, key: string): Promise<string> {
  const address = `http://${url.host}/auth/token`;
  const response = await fetch(address, { method: 'POST', body: JSON.stringify({ api_key: key }) }).catch((error) => {
    throw new UsageError(`${address} does not answer: ${error.cause?.code ?? error.cause?.message ?? error.message}`);
  });
  const body = (await response.json().catch(() => ({}))) as { token?: string; error?: string };
  if (body.token === undefined)
    throw new UsageError(`${address} answers ${response.status}: ${body.error ?? 'no token'}`);
  return body.token;
}

/** Prints a changing line until `ends` settles: in place on a terminal, otherwise once at the end. */
async function watch(ends: Promise<unknown>, line: () => string): Promise<void> {
  const { isTTY } = process.stdout;
  const show = () => process.stdout.write(`\r\u001b[K${line()}`);
  const timer = isTTY ? setInterval(show, 100) : undefined;
  await ends;
  clearInterval(timer);
  if (isTTY) show();
  process.stdout.write(isTTY ? '\n' : `${line()}\n`);
}

function bar(share: number): string {
  const width = 30;
  const full = Math.round(Math.min(1, share) * width);
  return `[${'='.repeat(full)}${' '.repeat(width - full)}]`;
}

function print(report: TickReport, crowd: Crowd, connections: number): void {
  const { received, missed, ticks, skew, lateness, histogram } = report;
  const line = (name: string, value: string | number) => console.log(`${name.padEnd(14)}${value}`);
  const ms = ({ p50, p99, max }: TickReport['skew']) =>
    [`p50 ${p50.toFixed(1)} ms`, `p99 ${p99.toFixed(1)} ms`, `max ${max.toFixed(1)} ms`].join('   ');
  console.log();
  line('connections', `${crowd.size} of ${connections}`);
  for (const [reason, count] of crowd.losses) line('lost', `${count}: ${reason}`);
  line('ticks', `${ticks}, received ${received} times`);
  line('missed', missed);
  line('skew', ms(skew));
  line('lateness', ms(lateness));
  console.log('\nlateness of each frame');
  const most = Math.max(1, ...histogram.map(({ frames }) => frames));
  for (const { atMost, frames } of histogram) {
    const name = atMost === Number.POSITIVE_INFINITY ? 'later' : `<= ${atMost} ms`;
    console.log(`${name.padStart(10)} ${bar(frames / most)} ${frames}`);
  }
}
