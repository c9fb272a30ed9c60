import type { TaskEvent, TaskLimit, TaskProgress } from '../client/task-state.ts';

/** The states of tasks, in the order of the tabs. */
export const STATES = ['scheduled', 'queued', 'limited', 'running', 'retrying', 'completed', 'failed'] as const;

export type State = (typeof STATES)[number];

const UNFINISHED: readonly string[] = STATES.slice(0, 5);

export function isUnfinished(state: string): boolean {
  return UNFINISHED.includes(state);
}

/** Task as reported by responses and events, with undefined for unknown fields. Texts may be truncated. */
export interface BoardTask {
  id: string;
  action: string;
  state: State | 'cancelled';
  acceptedAtMs?: number;
  startedAtMs?: number;
  endedAtMs?: number;
  /** Number of the running attempt. */
  attempt?: number;
  /** Number of failed attempts. */
  attempts?: number;
  reason?: string;
  /** Reason of a failed task without numbers, ids and quoted parts. Events do not tell it. */
  cause?: string;
  /** When the task, or its next attempt, is due. */
  dueAtMs?: number;
  progress?: TaskProgress;
  payload?: string;
  payloadBytes?: number;
  result?: string | null;
  resultBytes?: number;
  permanent?: boolean;
  priority?: number;
  limitKey?: string;
  limit?: TaskLimit;
}

/** Applies an event to a task. @param task undefined if unknown @returns undefined if the event purges the task */
export function afterEvent(task: BoardTask | undefined, event: TaskEvent): BoardTask | undefined {
  const { id, at } = event;
  const action = event.action ?? task?.action ?? 'unknown';
  const { progress: _, dueAtMs: __, limit: ___, cause: ____, ...known } = task ?? {};
  const base = { ...known, id, action };
  switch (event.event) {
    case 'accepted':
      // The accepting node may report a task later than the node that started it.
      if (isAcceptedLate(task)) return { ...task, action, acceptedAtMs: at };
      return { id, action, state: 'queued', acceptedAtMs: at, ...submitted(task), ...scheduledAt(task) };
    case 'scheduled':
      return { ...base, state: 'scheduled', acceptedAtMs: at, ...present({ dueAtMs: event.run_at_ms }) };
    case 'started':
      return { ...base, state: 'running', startedAtMs: at, ...present({ attempt: event.attempt }) };
    case 'progress':
      return { ...base, state: 'running', ...present({ attempt: event.attempt, progress: event.progress }) };
    case 'retrying': {
      const { attempts, reason, next_attempt_at_ms: dueAtMs } = event;
      return { ...base, state: 'retrying', ...present({ attempts, reason, dueAtMs }) };
    }
    case 'completed':
      return { ...base, state: 'completed', endedAtMs: at };
    case 'failed': {
      const { attempts, reason, permanent }: typeof event & { permanent?: boolean } = event;
      return { ...base, state: 'failed', endedAtMs: at, ...present({ attempts, reason, permanent }) };
    }
    case 'cancelled':
      return { ...base, state: 'cancelled', endedAtMs: at };
    case 'purged':
      return undefined;
  }
}

/** Whether an event `accepted` can only be late. That of a failed task is the start of a redrive. */
function isAcceptedLate(task: BoardTask | undefined): task is BoardTask {
  return task !== undefined && !['scheduled', 'queued', 'failed'].includes(task.state);
}

/** Merges a listed task into a known task. @param isNewer whether `known` is newer */
export function afterListing(known: BoardTask | undefined, listed: BoardTask, isNewer: boolean): BoardTask {
  // The event `accepted` does not tell whether a limit holds the task.
  const isLimited = known?.state === 'queued' && listed.state === 'limited';
  // Events of version 0.1.0 have no action.
  if (isNewer && !isLimited) return { ...listed, ...known, action: listed.action };
  return { ...listed, ...preciseTimes(known, listed) };
}

/** Returns the known times in milliseconds that, rounded down to seconds, equal the listed times. */
function preciseTimes(known: BoardTask | undefined, listed: BoardTask): Partial<BoardTask> {
  const times: Partial<BoardTask> = {};
  for (const name of ['acceptedAtMs', 'endedAtMs'] as const) {
    const precise = known?.[name];
    const isSame = precise !== undefined && Math.floor(precise / 1000) === Math.floor((listed[name] ?? 0) / 1000);
    if (isSame) times[name] = precise;
  }
  return times;
}

/** Returns when a scheduled task was accepted, which is run before its time. */
function scheduledAt({ state, acceptedAtMs }: Partial<BoardTask> = {}) {
  return state === 'scheduled' ? present({ acceptedAtMs }) : {};
}

function submitted({ payload, payloadBytes, priority, limitKey }: Partial<BoardTask> = {}) {
  return present({ payload, payloadBytes, priority, limitKey });
}

export function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
