import { destination, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';
import type { LogFormat, LogLevel } from './config.ts';

export type Log = Logger;

/** Past this many bytes that standard output will not take, log lines are dropped. */
const MAX_UNWRITTEN = 8 * 1024 * 1024;

export interface LogOutput {
  log: Log;
  /** Writes out what is buffered; call it right before the process ends. */
  flush(): void;
}

/**
 * The process's structured log on standard output: a JSON object a line, or coloured text.
 * A reader that stalls costs log lines, never a tick: JSON is written without blocking.
 */
export function createLog({ level, format }: { level: LogLevel; format: LogFormat }): LogOutput {
  if (format === 'pretty') {
    return {
      log: pino({ level, base: null }, pretty({ sync: true, translateTime: 'SYS:HH:MM:ss.l' })),
      flush: () => {},
    };
  }
  const output = destination({ sync: false, maxLength: MAX_UNWRITTEN });
  return {
    log: pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, output),
    flush() {
      try {
        output.flushSync();
      } catch {
        // Standard output is gone, and with it the only place to say so.
      }
    },
  };
}
