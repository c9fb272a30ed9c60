import { destination, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';
import type { LogFormat, LogLevel } from './config.ts';

export type Log = Logger;

/** How long a reader that has stalled may hold up the end of the process. */
const FLUSH_TIMEOUT_MS = 1000;
/** Past this many bytes that standard output will not take, log lines are dropped. */
const MAX_UNWRITTEN = 8 * 1024 * 1024;

/** A bearer token, wherever it got into a line from: an address, a header, the message of an error. */
const TOKEN = /v3\.local\.[\w-]+/g;

/** The last thing that happens to a line: no token is ever written. */
const hooks = { streamWrite: (line: string) => line.replace(TOKEN, 'v3.local.[redacted]') };

export interface LogOutput {
  log: Log;
  /** Writes out what is buffered, for a second at most, and takes no more: for the end of the process. */
  end(): Promise<void>;
}

/**
 * The process's structured log on standard output: a JSON object a line, or coloured text.
 * A reader that stalls costs log lines, never a tick: JSON is written without blocking.
 */
export function createLog({ level, format }: { level: LogLevel; format: LogFormat }): LogOutput {
  if (format === 'pretty') {
    return {
      log: pino({ level, base: null, hooks }, pretty({ sync: true, translateTime: 'SYS:HH:MM:ss.l' })),
      end: async () => {},
    };
  }
  const output = destination({ sync: false, maxLength: MAX_UNWRITTEN });
  return {
    log: pino({ level, base: null, hooks, timestamp: pino.stdTimeFunctions.isoTime }, output),
    async end() {
      const closed = Promise.withResolvers<void>();
      output.once('close', closed.resolve);
      output.end();
      const timer = setTimeout(closed.resolve, FLUSH_TIMEOUT_MS);
      await closed.promise;
      clearTimeout(timer);
      // Or pino would go on trying when the process exits.
      output.destroy();
    },
  };
}
