import type { BoardTask, State } from './board-task.ts';
import { limitText, NORMAL_PRIORITY } from './task-detail.ts';
import { dataText, formatClock, formatDue, formatSize, formatSpan, outputText, visibleText } from './texts.ts';

export interface Columns {
  headings: [detail: string, count: string, time: string];
  detail(task: BoardTask): string;
  /** Length of the whole text if `detail` returns a truncated text, or else an empty string. */
  size?(task: BoardTask): string;
  count(task: BoardTask): string;
  /** @param now milliseconds since the epoch */
  time(task: BoardTask, now: number): string;
}

const encoder = new TextEncoder();
const sizeOf = (text: string | null | undefined, bytes = 0) =>
  text && bytes > encoder.encode(text).length ? formatSize(bytes) : '';
const clockOf = (time: number | undefined) => (time === undefined ? '' : formatClock(time, false));
const since = (time: number | undefined, now: number) =>
  time === undefined ? '' : formatSpan(Math.max(0, now - time));
const dataOf = ({ payload }: BoardTask) => dataText(payload ?? '');
const reasonOf = ({ reason }: BoardTask) => visibleText(reason ?? '');
const attemptsOf = ({ attempts }: BoardTask) => `${attempts ?? ''}`;
const due = ({ run_at_ms, next_attempt_at_ms }: BoardTask, now: number) =>
  formatDue(next_attempt_at_ms ?? run_at_ms, now);

const WAITING: Columns = {
  headings: ['Data', 'Accepted', 'Waiting for'],
  detail: dataOf,
  size: ({ payload, payload_bytes }) => sizeOf(payload, payload_bytes),
  count: ({ accepted_at_ms }) => clockOf(accepted_at_ms),
  time: ({ accepted_at_ms }, now) => since(accepted_at_ms, now),
};

/** Columns of the list of a state, behind the action and the data. */
export const COLUMNS: Record<State, Columns> = {
  queued: WAITING,
  limited: {
    ...WAITING,
    headings: ['Limit', 'Accepted', 'Waiting for'],
    detail: ({ limit }) => visibleText(limit === undefined ? '' : limitText(limit)),
    size: () => '',
  },
  scheduled: { ...WAITING, headings: ['Data', 'Accepted', 'Due'], time: due },
  running: {
    headings: ['Progress', 'Attempt', 'Running for'],
    detail({ progress, ...task }) {
      if (progress === undefined) return dataOf(task);
      return visibleText(`${Math.floor(progress.fraction * 100)} % ${progress.note ?? ''}`);
    },
    count: ({ attempt }) => `${attempt ?? ''}`,
    time: ({ started_at_ms }, now) => since(started_at_ms, now),
  },
  retrying: { headings: ['Reason', 'Attempts', 'Next attempt'], detail: reasonOf, count: attemptsOf, time: due },
  completed: {
    headings: ['Output', 'Ran for', 'Accepted'],
    detail: ({ result }) => outputText(result ?? null),
    size: ({ result, result_bytes }) => sizeOf(result, result_bytes),
    count: ({ ran_ms }) => (ran_ms == null ? '' : formatSpan(ran_ms)),
    // The acceptance time may be unknown until the service has listed the task.
    time: ({ ended_at_ms, accepted_at_ms = ended_at_ms }) => clockOf(accepted_at_ms),
  },
  failed: {
    headings: ['Reason', 'Attempts', 'Failed'],
    detail: reasonOf,
    count: attemptsOf,
    time: ({ ended_at_ms }) => clockOf(ended_at_ms),
  },
};

/** Returns what decides the order of a task, unless it is the default: `priority 1, acme`. */
export function orderText({ priority = NORMAL_PRIORITY, limit_key, limit }: BoardTask): string {
  const key = limit?.key === undefined ? limit_key : undefined;
  return visibleText([priority !== NORMAL_PRIORITY && `priority ${priority}`, key].filter(Boolean).join(', '));
}
