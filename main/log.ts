import { type LevelWithSilent, type Logger, type LoggerOptions, levels, pino } from 'pino';
import { LineBuffer } from './log/line-buffer.ts';
import { RepeatLimit } from './log/repeat-limit.ts';
import { openStandardOutput } from './log/standard-output.ts';

export type Log = Logger;

export interface LogMetrics {
  lost: () => number;
  suppressed: () => number;
}

type Hooks = Required<NonNullable<LoggerOptions['hooks']>>;

/** Bearer tokens, which may appear in logged URLs, headers and error messages. */
const TOKEN = /v3\.local\.[\w-]+/g;

export interface LogOutput {
  log: Log;
  metrics: LogMetrics;
  /** Writes text that is not a log line, if `LOG_FORMAT` is `pretty` and the log level includes `info`. */
  print(text: string): void;
  /** Writes the buffered lines for at most one second, then closes the log. Later log lines are lost. */
  end(): Promise<void>;
}

/** Creates the log, which never blocks. Log lines are lost if standard output stalls or fails. */
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
    metrics: { lost: () => lines.lost, suppressed: () => repeats.suppressed },
    print(text) {
      if (format === 'pretty' && log.isLevelEnabled('info')) lines.write(text);
    },
    async end() {
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

type Fields = { err?: unknown; failure?: unknown };

/** Returns a log line's kind. {@link RepeatLimit} limits the number of lines of each kind in a period. */
function kindOf(args: readonly unknown[], level: number): string {
  const [first] = args;
  const { err, failure } = (typeof first === 'object' && first !== null ? first : {}) as Fields;
  const { name, code } = (err ?? {}) as Partial<NodeJS.ErrnoException>;
  return [level, messageOf(args), name, code, failure].join(' ');
}

function messageOf([first, second]: readonly unknown[]): unknown {
  return typeof first === 'string' ? first : second;
}
