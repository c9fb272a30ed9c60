import { format } from 'node:util';
import { parentPort } from 'node:worker_threads';
import { isObject } from './json-object.ts';
import type { HandlerLogLine, LogLevel, PoolToMain } from './messages.ts';

/** Maximum size in bytes of a log line's message, and of the line's fields as JSON text. */
const MAX_PART_BYTES = 4 * 1024;
const MAX_LINES_PER_SECOND = 100;
const SECOND_MS = 1000;

/**
 * Sends the log lines of a handlers module to the main thread. Truncates long messages and limits the lines per second.
 */
export class HandlerLog {
  readonly #post: (line: HandlerLogLine) => void;
  readonly #now: () => number;
  #admitted = 0;
  #suppressed = 0;
  /** End of the current one-second window, as a time of the clock `#now`. */
  #secondEndsAt = Number.NEGATIVE_INFINITY;
  /** Timer that reports suppressed lines at the end of the one-second window. */
  #timer: NodeJS.Timeout | undefined;

  /** @param now returns the time of a monotonic clock in milliseconds */
  constructor(
    post = (logLine: HandlerLogLine) => parentPort?.postMessage({ logLine } satisfies PoolToMain),
    now = () => performance.now(),
  ) {
    this.#post = post;
    this.#now = now;
  }

  /**
   * Writes a log line.
   *
   * @param own fields that override the caller's fields
   * @param args message and fields, in either order
   */
  write(level: LogLevel, own: object, args: readonly unknown[]): void {
    if (!this.#admit()) return;
    const [first, second] = args;
    const [message, fields] = typeof first === 'string' ? [first, second] : [second, first];
    const text = fieldsText(fields, own) ?? fieldsText({ omitted: 'the fields of this line' }, own);
    this.#post({ level, message: cut(typeof message === 'string' ? message : ''), ...(text && { fields: text }) });
  }

  /** Redirects `console`, standard output and standard error to this log. @param own fields added to every line */
  captureConsole(own: object): void {
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

  #admit(): boolean {
    // Timers do not fire while a handler blocks its thread, so the clock is checked as well.
    if (this.#now() >= this.#secondEndsAt) this.#startSecond();
    if (++this.#admitted <= MAX_LINES_PER_SECOND) return true;
    this.#suppressed += 1;
    this.#timer ??= setTimeout(() => this.#startSecond(), this.#secondEndsAt - this.#now()).unref();
    return false;
  }

  /** Starts a new one-second window. Reports how many lines were suppressed in the previous window. */
  #startSecond(): void {
    const suppressed = this.#suppressed;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#secondEndsAt = this.#now() + SECOND_MS;
    this.#admitted = 0;
    this.#suppressed = 0;
    if (suppressed > 0) this.write('warn', { suppressed }, ['log lines of a handlers module were left out']);
  }
}

/**
 * Returns fields as JSON text, or undefined if they are too large or cannot be serialized.
 *
 * @param own fields that override `fields`
 */
function fieldsText(fields: unknown, own: object): string | undefined {
  try {
    const text = JSON.stringify({ ...(isObject(fields) && fields), ...own }, plain);
    return Buffer.byteLength(text) <= MAX_PART_BYTES ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Replacer for `JSON.stringify` that converts bigints to strings and errors to plain objects. */
function plain(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Error ? { ...value, type: value.name, message: value.message, stack: value.stack } : value;
}

function cut(text: string): string {
  return Buffer.from(text.slice(0, MAX_PART_BYTES)).subarray(0, MAX_PART_BYTES).toString();
}
