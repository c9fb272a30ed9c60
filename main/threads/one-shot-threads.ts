import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { CreatedDatabase } from '../../db/sqlite/migrate.ts';
import { CALLBACK_ACTION } from '../../db/task-store.ts';
import type { MigrationStart } from '../../workers/maintenance/messages.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { oneLine } from '../../workers/shared/thrown.ts';
import type { ModuleSources, OneShotReport } from '../../workers/shared/user-module.ts';
import { readCallbackUrl } from '../../workers/submissions/callback-url.ts';
import type { HandlersManifest, HandlersModule, SubmissionRules } from '../../workers/tasks/messages.ts';
import type { Config } from '../config.ts';
import type { HttpError } from '../http/errors.ts';
import { readDefinition } from '../tasks/schedules/definition.ts';
import type { ModuleSchedules } from '../tasks/schedules/scheduler.ts';
import { threadFile } from './supervised-thread.ts';

type CheckedSettings = Pick<Config['tasks'], 'handlers' | 'memoryMb' | 'unknownActions' | 'callbackHosts'>;

export interface CheckedModule {
  actions: HandlersManifest;
  schedules: ModuleSchedules;
}

const TIME_LIMIT_MS = 10_000;
/** Maximum length of the name of an action with a callback. Messages have the start of a longer name. */
const LONGEST_ACTION = 200;
/** Heap limit of the thread that checks a price source in MB, three times the size of the largest allowed recording. */
const PRICE_SOURCE_MEMORY_MB = 1024;

/**
 * Loads the handlers module in a separate thread.
 *
 * @param sources gets the files that were loaded, also if the module cannot be used
 * @throws {Error} that names the module and why it cannot be used
 */
export async function checkHandlers(
  { handlers: module, memoryMb, unknownActions, callbackHosts }: CheckedSettings,
  timeLimitMs = TIME_LIMIT_MS,
  sources: ModuleSources = new Map(),
): Promise<CheckedModule> {
  if (module === undefined) return { actions: new Map(), schedules: new Map() };
  try {
    const file = threadFile('tasks/handlers-check');
    const { actions, schedules } = await check<HandlersModule>(file, { module }, memoryMb, timeLimitMs, sources);
    const rules = { actions: withCheckedCallbacks(actions, callbackHosts), rejectUnknown: unknownActions === 'reject' };
    return { actions: rules.actions, schedules: await readSchedules(schedules, rules, callbackHosts) };
  } catch (error) {
    throw new Error(`the handlers module ${module} cannot be used: ${(error as Error).message}`);
  }
}

/** Normalises the callback URLs of actions. @throws {Error} that names the first wrong one */
function withCheckedCallbacks(actions: HandlersManifest, hosts: readonly string[]): HandlersManifest {
  if (hosts.length > 0 && actions.has(CALLBACK_ACTION))
    throw new Error(`the action ${CALLBACK_ACTION} is built in while CALLBACK_HOSTS is set: rename it`);
  const checked = [...actions].map(([action, settings]) => {
    if (settings.callback === undefined) return [action, settings] as const;
    const isLong = action.length > LONGEST_ACTION;
    const tooLong = { wrong: `needs an action of at most ${LONGEST_ACTION} characters` };
    const read = isLong ? tooLong : readCallbackUrl(settings.callback, hosts);
    if ('url' in read) return [action, { ...settings, callback: read.url }] as const;
    throw new Error(oneLine(`action ${JSON.stringify(action)}: callback ${read.wrong}`));
  });
  return new Map(checked);
}

/** @throws {Error} that names the first wrong schedule */
async function readSchedules(
  exported: HandlersModule['schedules'],
  rules: SubmissionRules,
  callbackHosts: readonly string[],
): Promise<ModuleSchedules> {
  if (Object.keys(exported).length === 0) return new Map();
  // Imported lazily, because most modules have no schedules.
  const { submissionCheck } = await import('../../workers/submissions/data-schemas.ts');
  const check = submissionCheck(rules);
  const definitions = Object.entries(exported).map(([name, fields]) => {
    try {
      return [name, readDefinition(name, { ...(fields as object) }, systemClock.now(), callbackHosts, check)] as const;
    } catch (error) {
      const { message, fields: details = {} } = error as HttpError;
      const reasons = [message, ...Object.values(details)].filter((text) => text !== '');
      throw new Error(oneLine(`schedule ${JSON.stringify(name)}: ${reasons.join(': ')}`));
    }
  });
  return new Map(definitions);
}

/** Loads the price source in a separate thread. @throws {Error} that names the source and why it cannot be used */
export async function checkPriceSource(
  { priceSource: source, symbols }: Pick<Config['ticker'], 'priceSource' | 'symbols'>,
  timeLimitMs = TIME_LIMIT_MS,
): Promise<void> {
  if (source === undefined) return;
  const file = threadFile('ticker/price-source-check');
  await check(file, { source, symbols }, PRICE_SOURCE_MEMORY_MB, timeLimitMs).catch(({ message }) => {
    throw new Error(`the price source ${source} cannot be used: ${message.replace(/\s+/g, ' ')}`);
  });
}

/** Runs a check of a user's module in a new thread, and returns its result. Discards the thread's output. */
async function check<Result>(file: URL, data: object, memoryMb: number, timeLimitMs: number, sources?: ModuleSources) {
  await using worker = new Worker(file, {
    workerData: data,
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
    stdout: true,
    stderr: true,
  });
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  worker.on('message', (message: Partial<OneShotReport> | null | undefined) => {
    // A module can post any value through the port of its thread.
    const { report } = message ?? {};
    if (report === undefined) return;
    for (const [url, source] of message?.sources ?? []) sources?.set(url, source);
    if ('failure' in report) reject(new Error(report.failure));
    else resolve(report.result as Result);
  });
  worker.once('error', (error: Error | null) => reject(new Error(`its thread failed: ${error?.message}`)));
  worker.once('exit', (code) => reject(new Error(`it ended its thread with exit code ${code}`)));
  const tooLate = () => reject(new Error(`it did not load within ${timeLimitMs / 1000} s`));
  using _timer = setTimeout(tooLate, timeLimitMs);
  return await promise;
}

/** Migrates the databases in a worker thread. Returns the created database files (none for PostgreSQL). */
export async function runMigration(location: MigrationStart): Promise<CreatedDatabase[]> {
  // Ended before the caller unlocks the data folder.
  await using worker = new Worker(threadFile('maintenance/migrate'), { workerData: location, name: 'migration' });
  let created: CreatedDatabase[] = [];
  worker.on('message', (files: CreatedDatabase[]) => {
    created = files;
  });
  // Rejects with the error of the thread.
  const [code] = await once(worker, 'exit');
  if (code !== 0) throw new Error(`the migration ended with exit code ${code}`);
  return created;
}
