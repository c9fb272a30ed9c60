import { format } from 'node:util';
import { parentPort } from 'node:worker_threads';
import { isObject } from '../shared/json-object.ts';
import { type FromTaskThread, type HandlerLogLine, type LogLevel, MAX_LOG_PART_BYTES } from './messages.ts';

const MAX_LINES_PER_SECOND = 100;
const SECOND_MS = 1000;

/** Sends log lines of a handlers module to the main thread. Truncates long messages and limits the lines per second. */
export class HandlerLog {
  readonly #post: (line: HandlerLogLine) => void;
  readonly #now: () => number;
  #lines = 0;
  #suppressed = 0;
  #secondEndsAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  /** @param now returns the time of a monotonic clock in milliseconds */
  constructor(
    post = (logLine: HandlerLogLine) => parentPort?.postMessage({ logLine } satisfies FromTaskThread),
    now = () => performance.now(),
  ) {
    this.#post = post;
    this.#now = now;
  }

  /** Writes a log line. `args` are a message and fields, in either order. `own` overrides the fields in `args`. */
  write(level: LogLevel, own: object, args: readonly unknown[]): void {
    if (!this.#countLine()) return;
    const [first, second] = args;
    const [message, fields] = typeof first === 'string' ? [first, second] : [second, first];
    const text = fieldsText(fields, own) ?? fieldsText({ omitted: 'the fields of this line' }, own);
    this.#post({ level, message: cut(typeof message === 'string' ? message : ''), ...(text && { fields: text }) });
  }

  /** Writes Node's warnings and the output of `console`, stdout and stderr to the log. @param own fields of every line */
  captureConsole(own: object): void {
    // Replaces Node's own listener, which calls `console.error`. There is none if warnings are switched off.
    if (process.listenerCount('warning') > 0) {
      process.removeAllListeners('warning').on('warning', (warning: Error & { code?: string }) => {
        this.write('warn', { ...own, code: warning.code }, [String(warning)]);
      });
    }
    const levels = { debug: 'info', log: 'info', info: 'info', warn: 'warn', error: 'error' } as const;
    for (const [name, level] of Object.entries(levels)) {
      console[name as keyof typeof levels] = (...args: unknown[]) => this.write(level, own, [format(...args)]);
    }
    for (const [stream, level] of [
      [process.stdout, 'info'],
      [process.stderr, 'warn'],
    ] as const) {
      stream.write = (chunk: unknown, ...others: unknown[]) => {
        this.write(level, own, [String(chunk).trimEnd()]);
        const done = others.find((other) => typeof other === 'function');
        if (done !== undefined) queueMicrotask(() => done());
        return true;
      };
    }
  }

  /** Returns whether the line may be written. */
  #countLine(): boolean {
    // Checks the clock, because a timer does not fire while a handler blocks its thread.
    if (this.#now() >= this.#secondEndsAt) this.#startSecond();
    if (++this.#lines <= MAX_LINES_PER_SECOND) return true;
    this.#suppressed += 1;
    this.#timer ??= setTimeout(() => this.#startSecond(), this.#secondEndsAt - this.#now()).unref();
    return false;
  }

  #startSecond(): void {
    const suppressed = this.#suppressed;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#secondEndsAt = this.#now() + SECOND_MS;
    this.#lines = 0;
    this.#suppressed = 0;
    if (suppressed > 0) this.write('warn', { suppressed }, ['log lines of a handlers module were left out']);
  }
}

/** Returns undefined if the fields are too large or cannot be serialized. `own` overrides `fields`. */
function fieldsText(fields: unknown, own: object): string | undefined {
  try {
    const text = JSON.stringify({ ...(isObject(fields) && fields), ...own }, plain);
    return Buffer.byteLength(text) <= MAX_LOG_PART_BYTES ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Replacer for `JSON.stringify`, which throws for a bigint and omits an error's message. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Error ? { ...value, type: value.name, message: value.message, stack: value.stack } : value;
}

function cut(text: string): string {
  return Buffer.from(text.slice(0, MAX_LOG_PART_BYTES)).subarray(0, MAX_LOG_PART_BYTES).toString();
}
