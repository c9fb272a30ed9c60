import type { SearchResult } from '../client/task-client.ts';
import type { TaskEvent, TaskState } from '../client/task-state.ts';

/** The states of tasks, in the order of the tabs. */
export const STATES = ['scheduled', 'queued', 'limited', 'running', 'retrying', 'completed', 'failed'] as const;

export type State = (typeof STATES)[number];

const UNFINISHED: readonly string[] = STATES.slice(0, 5);

export const isUnfinished = (state: string): boolean => UNFINISHED.includes(state);

type FieldsOf<State> = (State extends unknown ? (fields: Omit<State, 'id' | 'status'>) => void : never) extends (
  fields: infer Fields,
) => void
  ? Fields
  : never;

export type TaskFields = Partial<FieldsOf<TaskState>>;

/** Task as reported by responses and events, with the names of the service. Texts may be truncated. */
export interface BoardTask extends Omit<TaskFields, 'ran_ms'> {
  id: string;
  action: string;
  state: State | 'cancelled';
  ended_at_ms?: number;
  /** Reason of a failed task without numbers, ids and quoted parts. Events do not tell it. */
  cause?: string;
  payload_bytes?: number;
  result_bytes?: number;
  /** Duration of all attempts of a completed task. Events do not tell it. */
  ran_ms?: number | null;
}

/** Task in a response. Result rows and dead letters have no status of a queued task, and times in Unix seconds. */
type ListedTask = Omit<BoardTask, 'action' | 'state'> & { action: string | null; status: State };

export function fromListed(listed: SearchResult['tasks'][number]): BoardTask {
  const { status, created_at, processed_at, first_at, last_at, ...task } = listed as ListedTask;
  const [accepted, ended] = [created_at ?? first_at, processed_at ?? last_at];
  return {
    ...task,
    action: task.action ?? 'unreadable',
    state: created_at !== undefined ? 'completed' : task.cause !== undefined ? 'failed' : status,
    ...(accepted !== undefined && { accepted_at_ms: accepted * 1_000 }),
    ...(ended != null && { ended_at_ms: ended * 1_000 }),
  };
}

/** State of a task after an event, and the field that has the time of the event. */
const CHANGES = {
  scheduled: ['scheduled', 'accepted_at_ms'],
  started: ['running', 'started_at_ms'],
  progress: ['running'],
  retrying: ['retrying'],
  completed: ['completed', 'ended_at_ms'],
  cancelled: ['cancelled', 'ended_at_ms'],
  failed: ['failed', 'ended_at_ms'],
} as const;

/** Applies an event to a task. @param task undefined if unknown @returns undefined if the event purges the task */
export function afterEvent(task: BoardTask | undefined, event: TaskEvent): BoardTask | undefined {
  const { event: name, id, at, action = task?.action ?? 'unknown', ...fields } = event;
  if (name === 'purged') return undefined;
  if (name === 'accepted') {
    // The accepting node may report a task later than the node that started it. A failed task is redriven.
    const isLate = task !== undefined && !['scheduled', 'queued', 'failed'].includes(task.state);
    if (isLate) return { ...task, action, accepted_at_ms: at };
    return { id, action, state: 'queued', accepted_at_ms: at, ...submitted(task) };
  }
  const [state, time] = CHANGES[name] ?? [];
  // A node of a newer version may report other events.
  if (state === undefined) return task;
  const { progress, run_at_ms, next_attempt_at_ms, limit, cause, ...known } = task ?? {};
  return { ...known, id, action, state, ...(time && { [time]: at }), ...fields };
}

/** Merges a listed task into a known task. @param isNewer whether `known` is newer */
export function afterListing(known: BoardTask | undefined, listed: BoardTask, isNewer: boolean): BoardTask {
  // The event `accepted` does not tell whether a limit holds the task.
  const isLimited = known?.state === 'queued' && listed.state === 'limited';
  // Events of version 0.1.0 have no action.
  if (isNewer && !isLimited) return { ...listed, ...known, action: listed.action };
  const merged = { ...listed };
  // Listed times may be rounded down to seconds, and those of events are not.
  for (const name of ['accepted_at_ms', 'ended_at_ms'] as const) {
    const precise = known?.[name];
    const isSame = precise !== undefined && Math.floor(precise / 1000) === Math.floor((listed[name] ?? 0) / 1000);
    if (isSame) merged[name] = precise;
  }
  return merged;
}

/** Returns the values that a queued task keeps: its submission, and the time at which it was scheduled if it is run before its time. */
function submitted({ state, accepted_at_ms, payload, payload_bytes, priority, limit_key }: Partial<BoardTask> = {}) {
  const scheduled = state === 'scheduled' ? { accepted_at_ms } : {};
  const fields = Object.entries({ payload, payload_bytes, priority, limit_key, ...scheduled });
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined)) as Partial<BoardTask>;
}
