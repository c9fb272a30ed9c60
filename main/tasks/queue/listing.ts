import { cut } from '../../../workers/parse-submission.ts';
import type { Backlog } from './backlog.ts';
import type { ListedState, QueueCounts, TaskListing } from './queue.ts';

/** Maximum number of tasks in a listing of unfinished tasks. */
export const LISTED_TASKS = 100;
/** Maximum number of characters of a message in a listing of unfinished tasks. */
export const LISTED_LENGTH = 256;

/** Lists the tasks of a local queue in one state. Awaits `admit` before reading each message. */
export async function listBacklog(
  backlog: Backlog,
  state: ListedState,
  admit: (bytes: number) => Promise<void>,
): Promise<TaskListing> {
  const total = totalOf(state, backlog.counts());
  const tasks = backlog.first(state, LISTED_TASKS).map((entry) => ({ entry, progress: backlog.stateOf(entry) }));
  const listed: TaskListing['tasks'] = [];
  for (const { entry, progress } of tasks) {
    const { id, action, acceptedAt, body } = entry;
    await admit(body.length);
    const [payload, payloadBytes] = [cut(body, LISTED_LENGTH), Buffer.byteLength(body)];
    listed.push({ id, action, acceptedAt, payload, payloadBytes, progress });
  }
  return { tasks: listed, total };
}

export function totalOf(state: ListedState, { waiting, inFlight, delayed }: Counts): number {
  return { queued: waiting, running: inFlight, retrying: delayed }[state];
}

type Counts = Pick<QueueCounts, 'waiting' | 'inFlight' | 'delayed'>;
