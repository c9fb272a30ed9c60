import { syncBuiltinESMExports } from 'node:module';
import { BroadcastChannel } from 'node:worker_threads';
import { isObject } from '../shared/json-object.ts';
import { oneLine, readThrown } from '../shared/thrown.ts';
import { importUserModule } from '../shared/user-module.ts';
import { HandlerLog } from './handler-log.ts';
import { type Handler, PermanentError } from './handlers-api.ts';
import type { AbortRequest, ActionSettings, HandlerOutcome, TaskAnswer, TaskThreadStart } from './messages.ts';
import { RunningTask, type TaskIdentity } from './running-task.ts';

/** Runs the handlers of a handlers module in a task thread. */
export class ModuleHandlers {
  readonly #handlers: ReadonlyMap<string, LoadedHandler>;
  readonly #maxOutputBytes: number;
  readonly #log: HandlerLog;
  readonly #running = new Map<number, RunningTask>();
  /** Abort request for all handlers, including handlers that start later. */
  #abortAll: AbortRequest | undefined;

  private constructor(
    handlers: ReadonlyMap<string, LoadedHandler>,
    { maxOutputBytes, abortChannel }: Omit<TaskThreadStart, 'module'>,
    log: HandlerLog,
  ) {
    this.#handlers = handlers;
    this.#maxOutputBytes = maxOutputBytes;
    this.#log = log;
    const channel = new BroadcastChannel(abortChannel);
    // Node loads this class when it is first used, which would delay the first abort by up to 100 ms.
    void MessageEvent;
    channel.onmessage = ({ data }) => this.#abort(data as AbortRequest);
    channel.unref();
  }

  /** @throws {Error} if the handlers module cannot be used */
  static async start(module: string, start: Omit<TaskThreadStart, 'module'>): Promise<ModuleHandlers> {
    const log = new HandlerLog();
    log.captureConsole({ handlers: module });
    // The end of the thread would count as a crash of the task that happens to be running. Replaced before the import,
    // because the module may keep a reference.
    process.exit = (code) => {
      throw new Error(`process.exit(${code ?? ''}) was called in a task thread`);
    };
    syncBuiltinESMExports();
    const handlers = await loadHandlers(module);
    // Registered after the import, because an uncaught error during the import must end the thread.
    process.on('uncaughtException', (err, origin) => {
      log.write('error', { handlers: module, origin, err: readThrown(err).reason }, ['error outside of a task']);
    });
    return new ModuleHandlers(handlers, start, log);
  }

  /** Returns undefined if the module has no handler for the action. The promise is never rejected. */
  run(task: TaskIdentity, data: object, run: number): Promise<TaskAnswer> | undefined {
    const handler = this.#handlers.get(task.action);
    return handler && this.#run(handler, task, data, run);
  }

  async #run({ handler }: LoadedHandler, task: TaskIdentity, data: object, run: number): Promise<TaskAnswer> {
    const startedAt = performance.now();
    const running = new RunningTask(task, run, this.#log);
    if (this.#abortAll !== undefined) running.abort(this.#abortAll);
    this.#running.set(run, running);
    let outcome: HandlerOutcome;
    try {
      const output = await handler(data, running);
      running.end();
      outcome = { ended: 'returned', output: outputText(output, this.#maxOutputBytes) };
    } catch (error) {
      // Ended before the error is read, so that a getter of the error cannot settle the task.
      running.end();
      outcome = running.outcomeOf(error);
    }
    this.#running.delete(run);
    const { acknowledged, reported: progress } = running;
    return {
      outcome,
      ms: performance.now() - startedAt,
      ...(acknowledged && { acknowledged }),
      ...(progress && { progress }),
    };
  }

  #abort(request: AbortRequest): void {
    if (request.run === 'all') this.#abortAll = request;
    for (const [run, task] of this.#running) if (request.run === 'all' || request.run === run) task.abort(request);
  }
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

const MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000;
const MAX_ATTEMPTS = 1000;

/**
 * Imports a handlers module, without compiling its schemas. `name` is a path or package name.
 *
 * @throws {Error} with a one-line reason if the module cannot be imported or its default export is invalid
 */
export async function loadHandlers(name: string): Promise<ReadonlyMap<string, LoadedHandler>> {
  const exported = await importUserModule(name);
  if (!isObject(exported)) throw new Error('its default export must be an object that maps actions to handlers');
  return new Map(Object.entries(exported).map(([action, value]) => [action, readHandler(action, value)]));
}

function readHandler(action: string, value: unknown): LoadedHandler {
  const fail = (problem: string) => new Error(`action ${JSON.stringify(action)}: ${problem}`);
  if (typeof value === 'function') return { handler: value as Handler };
  if (!isObject(value)) throw fail('its handler must be a function');
  const { handler, schema, timeoutMs, maxAttempts, overlap, ...others } = value;
  if (typeof handler !== 'function') throw fail('its handler must be a function');
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw fail(`unknown setting ${JSON.stringify(unknown)}`);
  if (schema !== undefined && !isObject(schema)) throw fail('its schema must be an object');
  if (!isWholeUpTo(timeoutMs, MAX_TIMEOUT_MS))
    throw fail(`timeoutMs must be a whole number from 1 to ${MAX_TIMEOUT_MS}`);
  if (!isWholeUpTo(maxAttempts, MAX_ATTEMPTS))
    throw fail(`maxAttempts must be a whole number from 1 to ${MAX_ATTEMPTS}`);
  if (overlap !== undefined && typeof overlap !== 'boolean') throw fail('overlap must be true or false');
  return {
    handler: handler as Handler,
    ...(schema && { schema }),
    ...(timeoutMs && { timeoutMs }),
    ...(maxAttempts && { maxAttempts }),
    ...(overlap === false && { overlap }),
  };
}

function isWholeUpTo(value: unknown, max: number): value is number | undefined {
  return value === undefined || (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max);
}
