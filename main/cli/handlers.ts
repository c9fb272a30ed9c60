/** `npm run handlers`: checks a handlers module, or runs one of its handlers. */
import { pino } from 'pino';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import type { Delivery } from '../../db/task-store.ts';
import { systemClock as clock, systemRandom as random } from '../../workers/shared/clock.ts';
import { isObject } from '../../workers/shared/json-object.ts';
import { submissionCheck } from '../../workers/submissions/data-schemas.ts';
import { draftOf, isDraft, messageOf, type Refusal } from '../../workers/submissions/parse-submission.ts';
import type { ActionSettings, HandlersManifest } from '../../workers/tasks/messages.ts';
import { type Config, loadConfig } from '../config.ts';
import { NACKED } from '../tasks/dispatch/dispatcher.ts';
import { decide, retriesOf } from '../tasks/dispatch/retry-policy.ts';
import type { Outcome } from '../tasks/pool/run.ts';
import { ThreadPool } from '../tasks/pool/thread-pool.ts';
import { checkHandlers } from '../threads/one-shot-threads.ts';
import { runCommand, UsageError } from './command.ts';

const USAGE = `npm run handlers -- <command>

  check <module>                   checks a handlers module (a path or package name), lists its actions and schedules
  run <module> <action> [<data>]   runs a handler in a task thread and prints the outcome; data is a JSON object

Task settings such as TASK_TIMEOUT_MS apply. No row is stored. The log goes to standard error.
`;

const FAILURES = { transient: 'error', permanent: 'permanent error', crash: 'crash' } as const;

await runCommand(USAGE, async ([command, module, action, text = '{}', ...others]) => {
  if (command !== 'check' && command !== 'run') throw new UsageError('name a command: check or run');
  if (module === undefined) throw new UsageError('the module is missing');
  const settings = { ...loadConfig(process.env).tasks, handlers: module, concurrency: 1 };
  const { actions, schedules } = await checkHandlers(settings);
  if (command === 'check') {
    if (action !== undefined) throw new UsageError('check takes one module');
    for (const [name, definition] of actions) console.log(describeAction(name, definition));
    for (const [name, { cron, time_zone, action }] of schedules)
      console.log(`schedule ${name} (${cron}, ${time_zone}): ${action}`);
    return;
  }
  if (action === undefined) throw new UsageError('the action is missing');
  if (others.length > 0) throw new UsageError('too many arguments: quote the data');
  if (!actions.has(action))
    throw new Error(`no action ${JSON.stringify(action)}, only ${[...actions.keys()].join(', ')}`);
  const check = submissionCheck({ actions, rejectUnknown: true });
  const dueAt = clock.now();
  const draft = draftOf({ action, data: readData(text) }, { now: dueAt, hasKey: false }, check);
  if (!isDraft(draft)) throw new Error(`refused at submission: ${describeRefusal(draft)}`);
  const first = { delivery: 1, attempt: 1, crashes: 0, isRated: false, isSuspect: false, history: NO_ATTEMPTS };
  await runHandler(settings, actions, { ...messageOf(random.uuid(), draft), arrival: 1, dueAt, ...first });
});

function describeAction(name: string, { schema, timeoutMs, maxAttempts }: ActionSettings): string {
  const limits = Object.entries({ timeoutMs, maxAttempts }).filter(([, value]) => value !== undefined);
  const settings = [...(schema ? ['schema'] : []), ...limits.map((limit) => limit.join(' '))];
  return settings.length === 0 ? name : `${name} (${settings.join(', ')})`;
}

function readData(text: string): object {
  try {
    const data: unknown = JSON.parse(text);
    if (isObject(data)) return data;
  } catch {}
  throw new UsageError(`the data must be a JSON object, got ${text}`);
}

function describeRefusal({ error, field }: Refusal): string {
  return field && 'path' in field ? `data${field.path} ${field.detail}` : error;
}

async function runHandler(settings: Config['tasks'], actions: HandlersManifest, delivery: Delivery) {
  const log = pino({ base: null, level: 'debug' }, pino.destination({ dest: 2, sync: true }));
  const pool = await ThreadPool.start(settings, { actions, clock, log });
  const stop = () => void pool.stop(clock.sleep(settings.cancelGraceMs));
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop);
  let settled: 'ack' | 'nack' | undefined;
  const outcome = await pool.run(delivery, {
    onStart: () => {},
    onProgress: (progress) => log.info(progress, 'progress'),
    onAcknowledged: (how) => {
      settled = how;
    },
  });
  const final = settled === 'nack' ? NACKED : outcome;
  const isAcked = settled === 'ack' || final.ended === 'returned';
  console.log(isAcked && final.ended !== 'returned' ? 'acknowledged' : describeOutcome(delivery, final, actions));
  if ('stack' in final) console.error(final.stack);
  if (!isAcked) process.exitCode = 1;
  await pool.stop(Promise.resolve());
}

function describeOutcome(delivery: Delivery, outcome: Outcome, actions: HandlersManifest): string {
  const retries = retriesOf(delivery, actions);
  const settlement = decide(delivery, outcome, retries, { clock, random });
  if (settlement.kind === 'complete') return settlement.result;
  if (settlement.kind !== 'retry' && settlement.kind !== 'discard')
    return `not completed: ${outcome.ended === 'released' ? outcome.reason : outcome.ended}`;
  const delay = 'retryAfterMs' in outcome ? ` after ${outcome.retryAfterMs} ms` : '';
  const next = settlement.kind === 'retry' ? `retried${delay}, attempt 2 of ${retries.maxAttempts}` : 'discarded';
  return `${FAILURES[settlement.failure]}: ${settlement.reason}\nthe task would be ${next}`;
}
