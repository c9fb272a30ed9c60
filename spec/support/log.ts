import { pino } from 'pino';
import type { Log } from '../../main/log/log.ts';
import { Condition } from './until.ts';

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
  const written = new Condition();
  const write = (line: string) => {
    lines.push(JSON.parse(line));
    written.changed();
  };
  return {
    log: pino({ level: 'trace', base: null }, { write }),
    lines,
    logged: (fits) => written.found(() => lines.find(fits)),
  };
}
