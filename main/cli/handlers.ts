/** `npm run handlers`: checks a handlers module, or runs one of its handlers. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Database } from '../../db/sqlite/database.ts';
import { migrate } from '../../db/sqlite/migrate.ts';
import { Tasks } from '../../db/sqlite/tasks.ts';
import type { ActionSettings, HandlersManifest } from '../../workers/handlers-manifest.ts';
import { isObject } from '../../workers/json-object.ts';
import { submissionCheck } from '../../workers/submission-check.ts';
import { type Config, loadConfig } from '../config.ts';
import { checkHandlers } from '../handlers-check.ts';
import { decide, retryPolicies } from '../tasks/dispatch/retry-policy.ts';
import { startPool } from '../tasks/pool/start-pool.ts';
import type { Outcome } from '../tasks/pool/worker-pool.ts';
import type { Delivery } from '../tasks/queue/queue.ts';
import { runCommand, UsageError } from './command.ts';

const USAGE = `npm run handlers -- <command>

  check <module>                   checks a handlers module (a path or package name) and lists its actions
  run <module> <action> [<data>]   runs a handler in a task thread and prints the outcome; data is a JSON object

Task settings such as TASK_TIMEOUT_MS apply. No row is stored. The log goes to standard error.
`;

const FAILURES = { transient: 'error', permanent: 'permanent error', crash: 'crash' } as const;

await runCommand(USAGE, async ([command, module, action, text = '{}', ...others]) => {
  if (command !== 'check' && command !== 'run') throw new UsageError('name a command: check or run');
  if (module === undefined) throw new UsageError('the module is missing');
  const settings = { ...loadConfig(process.env).tasks, handlers: module, concurrency: 1 };
  const actions = await checkHandlers(settings);
  if (command === 'check') {
    if (action !== undefined) throw new UsageError('check takes one module');
    for (const [name, definition] of actions) console.log(describeAction(name, definition));
    return;
  }
  if (action === undefined) throw new UsageError('the action is missing');
  if (others.length > 0) throw new UsageError('too many arguments: quote the data');
  if (!actions.has(action))
    throw new Error(`no action ${JSON.stringify(action)}, only ${[...actions.keys()].join(', ')}`);
  const refusal = submissionCheck({ actions, rejectUnknown: true })(action, readData(text));
  if (refusal?.field !== undefined) {
    throw new Error(`refused at submission: data${refusal.field.path} ${refusal.field.detail}`);
  }
  await runHandler(settings, actions, action, text);
});

function describeAction(name: string, { schema, timeoutMs, maxAttempts }: ActionSettings): string {
  const settings = [
    schema && 'schema',
    timeoutMs && `timeoutMs ${timeoutMs}`,
    maxAttempts && `maxAttempts ${maxAttempts}`,
  ];
  const present = settings.filter((setting) => setting !== undefined);
  return present.length === 0 ? name : `${name} (${present.join(', ')})`;
}

function readData(text: string): object {
  try {
    const data: unknown = JSON.parse(text);
    if (isObject(data)) return data;
  } catch {}
  throw new UsageError(`the data must be a JSON object, got ${text}`);
}

/** Runs a handler for one task in a worker thread, with a temporary database, and prints the outcome. */
async function runHandler(
  settings: Config['tasks'],
  actions: HandlersManifest,
  action: string,
  data: string,
): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'handlers-'));
  try {
    migrate(dataDir);
    const log = pino({ base: null, level: 'debug' }, pino.destination({ dest: 2, sync: true }));
    const onProgress = (_: Delivery, progress: object) => log.info(progress, 'progress');
    const pool = await startPool(settings, { dataDir }, log, { actions, onProgress });
    const stop = () => void pool.stop(new Promise((resolve) => setTimeout(resolve, settings.cancelGraceMs)));
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop);
    const delivery = newDelivery(action, data);
    const outcome = await pool.run(delivery, async () => {});
    const tasks = new Tasks(new Database(join(dataDir, 'tasks.db'), { busyTimeoutMs: 1000 }));
    console.log(describeOutcome(delivery, outcome, actions, tasks.find(delivery.message.id)?.result));
    if (outcome.ended !== 'returned') process.exitCode = 1;
    await pool.stop(Promise.resolve());
  } finally {
    await rm(dataDir, { recursive: true });
  }
}

function newDelivery(action: string, data: string): Delivery {
  const id = randomUUID();
  const now = Date.now();
  const createdAt = Math.floor(now / 1000);
  const body = `{"id":"${id}","action":${JSON.stringify(action)},"data":${data},"created_at":${createdAt}}`;
  return { message: { id, body }, sequence: 1, acceptedAt: now, attempt: 1, crashes: 0, suspect: false };
}

function describeOutcome(
  delivery: Delivery,
  outcome: Outcome,
  actions: HandlersManifest,
  result: string | null | undefined,
): string {
  if (outcome.ended === 'returned') return result ?? 'acknowledged';
  if (outcome.ended === 'cancelled') return 'not completed: cancelled';
  const policy = retryPolicies(actions)(delivery.message.body);
  const settlement = decide(delivery, outcome, policy);
  if (settlement.kind !== 'retry' && settlement.kind !== 'discard') return `not completed: ${outcome.reason}`;
  const given = outcome.ended === 'raised' ? outcome.retryAfterMs : undefined;
  const delay = given === undefined ? '' : ` after ${given} ms`;
  const next = settlement.kind === 'retry' ? `retried${delay}, attempt 2 of ${policy.maxAttempts}` : 'discarded';
  return `${FAILURES[settlement.failure]}: ${outcome.reason}\nthe task would be ${next}`;
}
