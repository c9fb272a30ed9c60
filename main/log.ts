import { type LevelWithSilent, type Logger, type LoggerOptions, levels, pino } from 'pino';
import { LineBuffer } from './log/line-buffer.ts';
import { RepeatLimit } from './log/repeat-limit.ts';
import { openStandardOutput } from './log/standard-output.ts';

export type Log = Logger;

/** Counters of lines that standard output did not take, and of repeated warnings and errors that were left out. */
export interface LogMetrics {
  readonly lost: number;
  readonly suppressed: number;
}

type Hooks = Required<NonNullable<LoggerOptions['hooks']>>;

/** A bearer token, which a URL, a header or an error message may bring into a line. */
const TOKEN = /v3\.local\.[\w-]+/g;

export interface LogOutput {
  log: Log;
  metrics: LogMetrics;
  /** Flushes the buffer at the end of the process, for a second at most. Later lines are lost. */
  end(): Promise<void>;
}

/** Creates the log on standard output. If standard output stalls or fails, log lines are lost, and nothing else is affected. */
export async function createLog(options: { level: LevelWithSilent; format: 'json' | 'pretty' }): Promise<LogOutput> {
  const { level, format } = options;
  const lines = new LineBuffer(openStandardOutput(), (lost) =>
    log.warn({ lost }, 'log lines were lost: standard output did not take them'),
  );
  const repeats = new RepeatLimit();
  const hooks = { logMethod: limitRepeats(repeats), streamWrite: format === 'pretty' ? await prettify() : redact };
  const log = pino({ level, base: null, hooks, timestamp: pino.stdTimeFunctions.isoTime }, lines);
  return {
    log,
    metrics: {
      get lost() {
        return lines.lost;
      },
      get suppressed() {
        return repeats.suppressed;
      },
    },
    async end() {
      repeats.endPeriod();
      await lines.end();
    },
  };
}

/** Removes tokens from a line. Runs after serialization, so that no field can contain a token. */
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

type Fields = { err?: unknown; failure?: unknown };

/** Returns the key for the repeat limit: level, message, name and code of an error, and the kind of a task's failure. */
function kindOf(args: readonly unknown[], level: number): string {
  const [first] = args;
  const { err, failure } = (typeof first === 'object' && first !== null ? first : {}) as Fields;
  const { name, code } = (err ?? {}) as Partial<NodeJS.ErrnoException>;
  return [level, messageOf(args), name, code, failure].join(' ');
}

function messageOf([first, second]: readonly unknown[]): unknown {
  return typeof first === 'string' ? first : second;
}
