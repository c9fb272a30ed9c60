import type { HandlerLogLine } from '../../../workers/messages.ts';
import type { Log } from '../../log.ts';

/** Writes a log line from a handlers module. @throws {Error} if the line is not valid */
export function writeHandlerLine(log: Log, { level, message, fields = '{}' }: HandlerLogLine): void {
  // Removes the fields that the log itself sets, because duplicate field names would make the line ambiguous.
  const { level: _level, time: _time, msg: _msg, ...others } = JSON.parse(fields);
  log[level](others, message);
}
