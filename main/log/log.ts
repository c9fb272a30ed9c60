import { type Logger, type LoggerOptions, levels, pino } from 'pino';
import type { Config } from '../config.ts';
import { LineBuffer, openStandardOutput } from './standard-output.ts';

export type Log = Logger;

type Hooks = Required<NonNullable<LoggerOptions['hooks']>>;

/** Bearer tokens, which may appear in logged URLs, headers and error messages. */
const TOKEN = /v3\.local\.[\w-]+/g;

export type LogOutput = Awaited<ReturnType<typeof createLog>>;

/** Creates the log, which never blocks. Log lines are lost if standard output stalls or fails. */
export async function createLog({ level, format }: Config['log']) {
  const lines = new LineBuffer(openStandardOutput(), (lost) =>
    log.warn({ lost }, 'log lines were lost: standard output did not take them'),
  );
  const repeats = new RepeatLimit();
  const hooks = { logMethod: limitRepeats(repeats), streamWrite: format === 'pretty' ? await prettify() : redact };
  const log: Log = pino({ level, base: null, hooks, timestamp: pino.stdTimeFunctions.isoTime }, lines);
  return {
    log,
    metrics: { lost: () => lines.lost, suppressed: () => repeats.suppressed },
    /** Writes text that is not a log line, if `LOG_FORMAT` is `pretty` and the log level includes `info`. */
    print(text: string): void {
      if (format === 'pretty' && log.isLevelEnabled('info')) lines.write(text);
    },
    /** Writes the buffered lines for at most one second, then closes the log. Later log lines are lost. */
    async end(): Promise<void> {
      repeats.endPeriod();
      await lines.end();
    },
  };
}

function redact(line: string): string {
  return line.replace(TOKEN, 'v3.local.[redacted]');
}

async function prettify(): Promise<Hooks['streamWrite']> {
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ translateTime: 'SYS:HH:MM:ss.l' });
  return (line) => pretty(redact(line));
}

function limitRepeats(repeats: RepeatLimit): Hooks['logMethod'] {
  return function (args, write, level) {
    const limited = level === levels.values.warn || level === levels.values.error;
    const report = (suppressed: number) =>
      write.call(this, { suppressed, repeated: messageOf(args) }, 'repeated log lines were left out');
    if (!limited || repeats.admit(kindOf(args, level), report)) write.apply(this, args);
  };
}

/** Returns a log line's kind. {@link RepeatLimit} limits the number of lines of each kind in a period. */
function kindOf(args: readonly unknown[], level: number): string {
  const { err, failure } = (args[0] ?? {}) as { err?: Partial<NodeJS.ErrnoException>; failure?: unknown };
  const { name, code } = err ?? {};
  return [level, messageOf(args), name, code, failure].join(' ');
}

function messageOf([first, second]: readonly unknown[]): unknown {
  return typeof first === 'string' ? first : second;
}

const PERIOD_MS = 10_000;
const MAX_LINES_PER_KIND = 20;
/** Maximum number of kinds of log lines per period. Lines of further kinds count as a single kind. */
const MAX_KINDS = 256;

/** Limits repeated log lines: each period admits the first lines of each kind, and counts the suppressed rest. */
export class RepeatLimit {
  suppressed = 0;
  readonly #kinds = new Map<string, { lines: number; report: (suppressed: number) => void }>();
  #timer: NodeJS.Timeout | undefined;

  /** Returns whether to write a line of kind `name`. Reports suppressed lines at the end of the period. */
  admit(name: string, report: (suppressed: number) => void): boolean {
    // The timer must not keep the process alive.
    this.#timer ??= setTimeout(() => this.endPeriod(), PERIOD_MS).unref();
    const key = this.#kinds.has(name) || this.#kinds.size < MAX_KINDS - 1 ? name : '';
    const kind = this.#kinds.get(key) ?? { lines: 0, report };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    if (kind.lines <= MAX_LINES_PER_KIND) return true;
    this.suppressed += 1;
    return false;
  }

  endPeriod(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, report } of kinds) if (lines > MAX_LINES_PER_KIND) report(lines - MAX_LINES_PER_KIND);
  }
}
