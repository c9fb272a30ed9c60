import { pino } from 'pino';
import type { Log } from '../../main/log/log.ts';
import { Condition } from './until.ts';

export type LogLine = { level: number; msg: string; [field: string]: unknown };

export function captureLog() {
  const lines: LogLine[] = [];
  const written = new Condition();
  const write = (line: string) => {
    lines.push(JSON.parse(line));
    written.changed();
  };
  return {
    log: pino({ level: 'trace', base: null }, { write }) as Log,
    lines,
    logged: (fits: (line: LogLine) => boolean) => written.found(() => lines.find(fits)),
  };
}
