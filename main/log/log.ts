import { type Logger, type LoggerOptions, levels, pino } from 'pino';
import { RepeatLimit } from '../../workers/shared/repeat-limit.ts';
import type { Config } from '../config.ts';
import { StandardOutput } from './standard-output.ts';

export type Log = Logger;

type Hooks = Required<NonNullable<LoggerOptions['hooks']>>;

/** Bearer tokens, which may appear in logged URLs, headers and error messages. */
const TOKEN = /v3\.local\.[\w-]+/g;

export type LogOutput = Awaited<ReturnType<typeof createLog>>;

/** Creates the log, which never blocks. Log lines are lost if standard output stalls or fails for long. */
export async function createLog({ level, format }: Config['log']) {
  const lines = new StandardOutput((lost) =>
    log.warn({ lost }, 'log lines were lost: standard output did not take them'),
  );
  const repeats = new RepeatLimit();
  const hooks = { logMethod: limitRepeats(repeats), streamWrite: format === 'pretty' ? await prettify() : redact };
  const log: Log = pino({ level, base: null, hooks, timestamp: pino.stdTimeFunctions.isoTime }, lines);
  return {
    log,
    metrics: { lost: () => lines.lost, failure: () => lines.failure, suppressed: () => repeats.suppressed },
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
