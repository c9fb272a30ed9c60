import { formatBetween, formatClock, formatSize, formatSpan } from './amounts.ts';
import type { BoardTask, State } from './board-task.ts';
import { limitText } from './limits.ts';
import { dataText, outputText } from './summary-text.ts';
import { visibleText } from './visible-text.ts';

export type ListedState = Exclude<State, 'failed'>;

export interface Columns {
  headings: [detail: string, count: string, time: string];
  detail(task: BoardTask): string;
  /** Length of the whole text if `detail` returns a truncated text, or else an empty string. */
  size(task: BoardTask): string;
  count(task: BoardTask): string;
  /** @param now milliseconds since the epoch */
  time(task: BoardTask, now: number): string;
}

const NORMAL_PRIORITY = 3;
const encoder = new TextEncoder();
const sizeOf = (text: string | null | undefined, bytes = 0) =>
  text && bytes > encoder.encode(text).length ? formatSize(bytes) : '';
const payloadSize = ({ payload, payloadBytes }: BoardTask) => sizeOf(payload, payloadBytes);
const since = (time: number | undefined, now: number) =>
  time === undefined ? '' : formatSpan(Math.max(0, now - time));

export const COLUMNS: Record<ListedState, Columns> = {
  queued: {
    headings: ['Data', 'Accepted', 'Waiting for'],
    detail: ({ payload }) => dataText(payload ?? ''),
    size: payloadSize,
    count: ({ acceptedAtMs }) => (acceptedAtMs === undefined ? '' : formatClock(acceptedAtMs, false)),
    time: ({ acceptedAtMs }, now) => since(acceptedAtMs, now),
  },
  limited: {
    headings: ['Limit', 'Accepted', 'Waiting for'],
    detail: ({ limit }) => visibleText(limit === undefined ? '' : limitText(limit)),
    size: () => '',
    count: ({ acceptedAtMs }) => (acceptedAtMs === undefined ? '' : formatClock(acceptedAtMs, false)),
    time: ({ acceptedAtMs }, now) => since(acceptedAtMs, now),
  },
  scheduled: {
    headings: ['Data', 'Accepted', 'Due'],
    detail: ({ payload }) => dataText(payload ?? ''),
    size: payloadSize,
    count: ({ acceptedAtMs }) => (acceptedAtMs === undefined ? '' : formatClock(acceptedAtMs, false)),
    time: ({ dueAtMs }, now) => formatDue(dueAtMs, now),
  },
  running: {
    headings: ['Progress', 'Attempt', 'Running for'],
    detail: ({ progress, payload }) =>
      progress === undefined
        ? dataText(payload ?? '')
        : visibleText(`${percent(progress.fraction)} ${progress.note ?? ''}`),
    size: () => '',
    count: ({ attempt }) => `${attempt ?? ''}`,
    time: ({ startedAtMs }, now) => since(startedAtMs, now),
  },
  retrying: {
    headings: ['Reason', 'Attempts', 'Next attempt'],
    detail: ({ reason }) => visibleText(reason ?? ''),
    size: () => '',
    count: ({ attempts }) => `${attempts ?? ''}`,
    time: ({ dueAtMs }, now) => formatDue(dueAtMs, now),
  },
  completed: {
    headings: ['Output', 'Took', 'Accepted'],
    detail: ({ result }) => outputText(result ?? null),
    size: ({ result, resultBytes }) => sizeOf(result, resultBytes),
    count: took,
    // The acceptance time may be unknown until the service has listed the task.
    time: ({ endedAtMs = 0, acceptedAtMs = endedAtMs }) => formatClock(acceptedAtMs, false),
  },
};

/** Returns what decides the order of a task, unless it is the default: `priority 1, acme`. */
export function orderText({ priority = NORMAL_PRIORITY, limitKey, limit }: BoardTask): string {
  const key = limit?.key === undefined ? limitKey : undefined;
  return visibleText([priority !== NORMAL_PRIORITY && `priority ${priority}`, key].filter(Boolean).join(', '));
}

/** Formats the time until a task is due as `in 545 ms`, `in 3.2 s` or `now`. */
export function formatDue(dueMs: number | undefined, now: number): string {
  if (dueMs === undefined) return '';
  return dueMs <= now ? 'now' : `in ${formatSpan(dueMs - now)}`;
}

function percent(fraction: number): string {
  return `${Math.floor(fraction * 100)} %`;
}

/** Returns the time between acceptance and end, in whole seconds if no event has reported exact times. */
function took({ acceptedAtMs, endedAtMs }: BoardTask): string {
  if (acceptedAtMs === undefined || endedAtMs === undefined) return '';
  const isRounded = acceptedAtMs % 1000 === 0 || endedAtMs % 1000 === 0;
  return isRounded
    ? formatBetween(Math.floor(acceptedAtMs / 1000), Math.floor(endedAtMs / 1000))
    : formatSpan(Math.max(0, endedAtMs - acceptedAtMs));
}
