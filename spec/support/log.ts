import { pino } from 'pino';
import type { Log } from '../../main/log/log.ts';

export interface LogLine {
  level: number;
  msg: string;
  [field: string]: unknown;
}

export interface CapturedLog {
  log: Log;
  lines: LogLine[];
  /** Returns the first line that fits, now or later. */
  logged(fits: (line: LogLine) => boolean): Promise<LogLine>;
}

export function captureLog(): CapturedLog {
  const lines: LogLine[] = [];
  let written = Promise.withResolvers<void>();
  const write = (line: string) => {
    lines.push(JSON.parse(line));
    written.resolve();
    written = Promise.withResolvers();
  };
  return {
    log: pino({ level: 'trace', base: null }, { write }),
    lines,
    async logged(fits) {
      for (;;) {
        const line = lines.find(fits);
        if (line !== undefined) return line;
        await written.promise;
      }
    },
  };
}
