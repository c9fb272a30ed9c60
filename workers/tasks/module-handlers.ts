import { syncBuiltinESMExports } from 'node:module';
import { BroadcastChannel } from 'node:worker_threads';
import { isWholeUpTo, readLimits } from '../shared/action-limits.ts';
import { stackOf } from '../shared/frames.ts';
import { isObject } from '../shared/json-object.ts';
import { unknownName } from '../shared/nearest-names.ts';
import { oneLine, readThrown } from '../shared/thrown.ts';
import { importUserModule, type ModuleSources } from '../shared/user-module.ts';
import { HandlerLog } from './handler-log.ts';
import { type Backoff, type Handler, PermanentError } from './handlers-api.ts';
import type { AbortRequest, ActionSettings, HandlerOutcome, TaskAnswer, TaskThreadStart } from './messages.ts';
import { RunningTask, type TaskIdentity } from './running-task.ts';

/**
 * Imports a handlers module in a task thread. Returns a function that runs the handler of a task. It returns undefined if
 * the module has no handler for the action, and its promise is never rejected.
 */
export async function startHandlers(module: string, { sources, maxOutputBytes, abortChannel }: TaskThreadStart) {
  const log = new HandlerLog();
  log.captureConsole({ handlers: module });
  const { exit } = process;
  // The end of the thread would count as a crash of the task that happens to be running. Replaced before the import,
  // because the module may keep a reference.
  process.exit = (code) => {
    throw new Error(`process.exit(${code ?? ''}) was called in a task thread`);
  };
  // Node itself calls it, after this event, to end a thread whose module fails.
  process.once('exit', () => {
    process.exit = exit;
  });
  syncBuiltinESMExports();
  const handlers = await loadHandlers(module, sources);
  // Registered after the import, because an uncaught error during the import must end the thread.
  process.on('uncaughtException', (err, origin) => {
    log.write('error', { handlers: module, origin, err: readThrown(err).reason, stack: stackOf(err) }, [
      'error outside of a task',
    ]);
  });
  const running = new Map<number, RunningTask>();
  /** Abort request for all handlers, including handlers that start later. */
  let abortAll: AbortRequest | undefined;
  const channel = new BroadcastChannel(abortChannel);
  // Node loads this class when it is first used, which would delay the first abort by up to 100 ms.
  void MessageEvent;
  channel.onmessage = ({ data: request }: { data: AbortRequest }) => {
    if (request.run === 'all') abortAll = request;
    for (const [run, task] of running) if (request.run === 'all' || request.run === run) task.abort(request);
  };
  channel.unref();

  const runHandler = async (handler: Handler, identity: TaskIdentity, data: object, run: number) => {
    const startedAt = performance.now();
    const task = new RunningTask(identity, run, log);
    if (abortAll !== undefined) task.abort(abortAll);
    running.set(run, task);
    let outcome: HandlerOutcome;
    try {
      const output = await handler(data, task.context);
      task.end();
      outcome = { ended: 'returned', output: outputText(output, maxOutputBytes) };
    } catch (error) {
      // Ended before the error is read, so that a getter of the error cannot settle the task.
      task.end();
      outcome = task.outcomeOf(error);
    }
    running.delete(run);
    const { acknowledged, reported: progress } = task;
    const ms = performance.now() - startedAt;
    return { outcome, ms, ...(acknowledged && { acknowledged }), ...(progress && { progress }) };
  };
  return (identity: TaskIdentity, data: object, run: number): Promise<TaskAnswer> | undefined => {
    const loaded = handlers.get(identity.action);
    return loaded && runHandler(loaded.handler, identity, data, run);
  };
}

/** @throws {PermanentError} if the output cannot be serialized or exceeds `maxBytes` */
function outputText(output: unknown = null, maxBytes: number): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(output);
  } catch (error) {
    throw new PermanentError(`JSON cannot hold the output: ${oneLine(readThrown(error).reason)}`);
  }
  if (text === undefined) throw new PermanentError(`JSON cannot hold the output: it is a ${typeof output}`);
  // In UTF-8, a UTF-16 code unit takes at most three bytes.
  if (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes)
    throw new PermanentError(`the output has more than ${maxBytes} bytes`);
  return text;
}

export interface LoadedHandler extends ActionSettings {
  handler: Handler;
}

const SETTINGS = ['handler', 'schema', 'timeoutMs', 'maxAttempts', 'backoff', 'overlap', 'limits', 'callback'];
const MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000;
const MAX_ATTEMPTS = 1000;
const MAX_FACTOR = 10;

/** Imports a handlers module, without compiling its schemas. @throws {Error} with a one-line reason */
export async function loadHandlers(name: string, sources?: ModuleSources): Promise<ReadonlyMap<string, LoadedHandler>> {
  const exported = await importUserModule(name, 'default', sources);
  if (!isObject(exported)) throw new Error('its default export must be an object that maps actions to handlers');
  return new Map(Object.entries(exported).map(([action, value]) => [action, readHandler(action, value)]));
}

/** Imports a handlers module, and returns its export `schedules` as plain data, unchecked. */
export async function loadSchedules(name: string): Promise<Record<string, unknown>> {
  const exported = (await importUserModule(name, 'schedules')) ?? {};
  if (!isObject(exported)) throw new Error('its export "schedules" must be an object that maps names to schedules');
  return JSON.parse(JSON.stringify(exported));
}

function readHandler(action: string, value: unknown): LoadedHandler {
  const fail = (problem: string) => new Error(`action ${JSON.stringify(action)}: ${problem}`);
  const failLimits = (path: string, detail: string) => fail(`limits${path.replaceAll('/', '.')} ${detail}`);
  const definition = isObject(value) ? value : { handler: value };
  const { handler, schema, timeoutMs, maxAttempts, backoff, overlap, limits, callback } = definition;
  if (typeof handler !== 'function') throw fail('its handler must be a function');
  const misspelt = unknownName('setting', Object.keys(definition), SETTINGS);
  if (misspelt !== undefined) throw fail(misspelt.message);
  if (schema !== undefined && !isObject(schema)) throw fail('its schema must be an object');
  if (timeoutMs !== undefined && !isWholeUpTo(timeoutMs, MAX_TIMEOUT_MS))
    throw fail(`timeoutMs must be a whole number from 1 to ${MAX_TIMEOUT_MS}`);
  if (maxAttempts !== undefined && !isWholeUpTo(maxAttempts, MAX_ATTEMPTS))
    throw fail(`maxAttempts must be a whole number from 1 to ${MAX_ATTEMPTS}`);
  if (overlap !== undefined && typeof overlap !== 'boolean') throw fail('overlap must be true or false');
  if (callback !== undefined && typeof callback !== 'string') throw fail('callback must be a URL');
  return {
    handler: handler as Handler,
    ...(schema && { schema }),
    ...(timeoutMs && { timeoutMs }),
    ...(maxAttempts && { maxAttempts }),
    ...(backoff !== undefined && { backoff: readBackoff(backoff, fail) }),
    ...(overlap === false && { overlap }),
    ...(limits !== undefined && { limits: readLimits(limits, 'perKey', failLimits) }),
    ...(callback !== undefined && { callback }),
  };
}

function readBackoff(value: unknown, fail: (problem: string) => Error): Partial<Backoff> {
  if (!isObject(value)) throw fail('backoff must be an object');
  const misspelt = unknownName('setting', Object.keys(value), ['firstMs', 'factor', 'maxMs']);
  if (misspelt !== undefined) throw fail(`backoff: ${misspelt.message}`);
  const { firstMs, factor, maxMs } = value;
  for (const [name, ms] of Object.entries({ firstMs, maxMs }))
    if (ms !== undefined && !isWholeUpTo(ms, MAX_TIMEOUT_MS))
      throw fail(`backoff.${name} must be a whole number from 1 to ${MAX_TIMEOUT_MS}`);
  if (factor !== undefined && !(typeof factor === 'number' && factor >= 1 && factor <= MAX_FACTOR))
    throw fail(`backoff.factor must be a number from 1 to ${MAX_FACTOR}`);
  // Without undefined fields, which would replace the defaults.
  return Object.fromEntries(Object.entries(value).filter(([, given]) => given !== undefined));
}
