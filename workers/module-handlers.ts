import { syncBuiltinESMExports } from 'node:module';
import { BroadcastChannel } from 'node:worker_threads';
import { HandlerLog } from './handler-log.ts';
import { PermanentError } from './handlers-api.ts';
import { type LoadedHandler, loadHandlers } from './handlers-module.ts';
import type { AbortReason, AbortRequest, HandlersStart } from './messages.ts';
import type { HandledDelivery } from './run-batch.ts';
import { RunningTask } from './task-context.ts';
import { oneLine, readThrown } from './thrown.ts';

export interface QueuedTask {
  id: string;
  action: string;
  data: Readonly<Record<string, unknown>>;
  created_at: number;
}

/** Runs the handlers of a handlers module in a pool thread. */
export class ModuleHandlers {
  readonly #handlers: ReadonlyMap<string, LoadedHandler>;
  readonly #start: HandlersStart;
  readonly #timeoutMs: number;
  readonly #log: HandlerLog;
  #running: { delivery: number; task: RunningTask } | undefined;
  /** Abort reason for all handlers, including handlers that start later. */
  #allAborted: AbortReason | undefined;

  private constructor(
    handlers: ReadonlyMap<string, LoadedHandler>,
    start: HandlersStart,
    timeoutMs: number,
    log: HandlerLog,
  ) {
    this.#handlers = handlers;
    this.#start = start;
    this.#timeoutMs = timeoutMs;
    this.#log = log;
    const channel = new BroadcastChannel(start.abortChannel);
    channel.onmessage = ({ data }) => this.#abort(data as AbortRequest);
    channel.unref();
  }

  /** @throws {Error} if the handlers module cannot be used */
  static async start(start: HandlersStart, timeoutMs: number): Promise<ModuleHandlers> {
    const { module } = start;
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
    return new ModuleHandlers(handlers, start, timeoutMs, log);
  }

  /** Returns undefined if the module has no handler for the action. `toRow` creates the task's row from JSON text. */
  run<Row>(message: QueuedTask, delivery: HandledDelivery, toRow: (output: string) => Row): Promise<Row> | undefined {
    const handler = this.#handlers.get(message.action);
    return handler && this.#run(handler, message, delivery, toRow);
  }

  async #run<Row>(
    { handler, timeoutMs = this.#timeoutMs }: LoadedHandler,
    message: QueuedTask,
    delivery: HandledDelivery,
    toRow: (output: string) => Row,
  ): Promise<Row> {
    delivery.limit(timeoutMs, this.#start.graceMs);
    const task = new RunningTask(message, delivery, timeoutMs, this.#log);
    if (this.#allAborted !== undefined) task.abort(this.#allAborted);
    this.#running = { delivery: delivery.delivery, task };
    try {
      return toRow(outputText(await handler(message.data, task), this.#start.maxOutputBytes));
    } catch (error) {
      throw task.failure(error);
    } finally {
      task.end();
      this.#running = undefined;
    }
  }

  #abort({ delivery, reason }: AbortRequest): void {
    if (delivery === 'all') this.#allAborted = reason;
    if (delivery === 'all' || delivery === this.#running?.delivery) this.#running?.task.abort(reason);
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
