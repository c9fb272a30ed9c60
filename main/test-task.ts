import type { TaskProgress } from '../db/task-store.ts';
import type { TaskContext } from '../workers/tasks/handlers-api.ts';
import type { Acknowledgement, LogLevel } from '../workers/tasks/messages.ts';

/** Line that a handler has written with `log`. */
export interface TestLine {
  level: LogLevel;
  message: string;
  fields: object;
}

/** Context for a unit test of a handler, with a record of the handler's calls. */
export interface TestTask extends TaskContext {
  readonly lines: readonly TestLine[];
  readonly reports: readonly TaskProgress[];
  /** Calls of `ack` and `nack`. In a service, only the first has an effect. */
  readonly settled: readonly Acknowledgement[];
  readonly controller: AbortController;
}

/** Returns a context for a unit test of a handler. @param identity fields that are not to have their defaults */
export function testTask(
  identity: Partial<Pick<TaskContext, 'id' | 'action' | 'attempt' | 'createdAt' | 'traceparent'>> = {},
): TestTask {
  const controller = new AbortController();
  const lines: TestLine[] = [];
  const reports: TaskProgress[] = [];
  const settled: Acknowledgement[] = [];
  const writer =
    (level: LogLevel) =>
    (first: string | object, second?: string | object): void => {
      const [message = '', fields = {}] = typeof first === 'string' ? [first, second] : [second, first];
      lines.push({ level, message: message as string, fields: fields as object });
    };
  return {
    ...{ id: '00000000-0000-4000-8000-000000000000', action: 'test', attempt: 1, traceparent: undefined },
    ...{ createdAt: Math.floor(Date.now() / 1000), ...identity },
    ...{ controller, signal: controller.signal, lines, reports, settled },
    log: { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') },
    progress: (fraction, note) => void reports.push({ fraction, ...(note !== undefined && { note }) }),
    ack: () => void settled.push('ack'),
    nack: () => void settled.push('nack'),
  };
}
