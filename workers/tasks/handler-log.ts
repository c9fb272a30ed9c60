import { format } from 'node:util';
import { parentPort } from 'node:worker_threads';
import { isObject } from '../shared/json-object.ts';
import { RepeatLimit } from '../shared/repeat-limit.ts';
import { type FromTaskThread, type HandlerLogLine, type LogLevel, MAX_LOG_PART_BYTES } from './messages.ts';

const MAX_LINES_PER_SECOND = 100;
const SECOND_MS = 1000;

/** Sends log lines of a handlers module to the main thread. Truncates long messages and limits the lines per second. */
export class HandlerLog {
  readonly #post: (line: HandlerLogLine) => void;
  readonly #limit = new RepeatLimit(MAX_LINES_PER_SECOND, SECOND_MS);

  constructor(post = (logLine: HandlerLogLine) => parentPort?.postMessage({ logLine } satisfies FromTaskThread)) {
    this.#post = post;
  }

  /** Writes a log line. `args` are a message and fields, in either order. `own` overrides the fields in `args`. */
  write(level: LogLevel, own: object, args: readonly unknown[]): void {
    if (!this.#limit.admit('', this.#reportSuppressed)) return;
    const [first, second] = args;
    const [text, given] = typeof first === 'string' ? [first, second] : [second, first];
    const [message, fields] = given instanceof Error ? [text ?? given.message, { err: given }] : [text, given];
    const json = fieldsText(fields, own) ?? fieldsText({ omitted: 'the fields of this line' }, own);
    this.#post({ level, message: cut(typeof message === 'string' ? message : ''), ...(json && { fields: json }) });
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

  readonly #reportSuppressed = (suppressed: number): void => {
    const message = 'log lines of a handlers module were left out';
    this.#post({ level: 'warn', message, fields: JSON.stringify({ suppressed }) });
  };
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
