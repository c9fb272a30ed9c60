import { pino } from 'pino';
import type { Log } from '../../main/log.ts';

export interface LogLine {
  level: number;
  msg: string;
  [field: string]: unknown;
}

/** A log for one test, and the lines that were written to it. */
export function captureLog(): { log: Log; lines: LogLine[] } {
  const lines: LogLine[] = [];
  return { log: pino({ level: 'trace', base: null }, { write: (line) => lines.push(JSON.parse(line)) }), lines };
}
