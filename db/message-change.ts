import { setImmediate } from 'node:timers/promises';
import { type Attempt, PROCESS_DIED, readHistory, withAttempt } from './attempt-history.ts';
import { actionText, createdAt, type DetailedRow } from './task-rows.ts';
import {
  type BulkResult,
  CALLBACK_ACTION,
  type Delivery,
  type Settled,
  SUSPECT_DEATHS,
  type TaskSubject,
} from './task-store.ts';

/** Change of a running message that stays in the queue. Absent fields keep their values. */
export interface MessageChange {
  delivery: Pick<Delivery, 'arrival' | 'delivery'> & { action?: string | null | undefined };
  state: 'waiting' | 'retrying' | 'failed';
  runAt?: number;
  attempts?: number;
  crashes?: number;
  deaths?: number;
  reason?: string;
  history?: string;
  isPermanent?: boolean;
}

/** A running message whose process has died. */
export interface LostMessage extends Pick<Delivery, 'arrival' | 'delivery' | 'crashes' | 'id' | 'dueAt'> {
  action: string | null;
  attempts: number;
  deaths: number;
  history: string | null;
  startedAt: number | null;
  callbackOf: string | null;
  isCancelRequested: boolean;
}

export const EXHAUSTED = `${PROCESS_DIED}, and no attempt is left`;

/**
 * Returns the change of a message by a retry, release or discard.
 *
 * @param node id of this node, undefined if it is the only one
 */
export function changeOf(settled: Settled, now: number, node?: string): MessageChange {
  const { delivery, settlement } = settled;
  if (settlement.kind !== 'retry' && settlement.kind !== 'discard') return { delivery, state: 'waiting' };
  const { attempt: attempts, crashes } = delivery;
  const { reason, stack, failure } = settlement;
  const charged = {
    ...{ delivery, attempts, crashes: crashes + Number(failure === 'crash'), reason },
    history: JSON.stringify(historyAfter(settled, { reason, stack }, now, node)),
  };
  if (settlement.kind === 'discard') return { ...charged, state: 'failed', isPermanent: failure === 'permanent' };
  // An attempt that ends clears the deaths.
  return { ...charged, state: 'retrying', runAt: settlement.runAt, deaths: 0 };
}

type Failed = Pick<Attempt, 'reason' | 'stack'>;

function historyAfter({ delivery, startedAt, endedAt }: Settled, failed: Failed, now: number, node?: string) {
  const attempt: Attempt = { startedAt: startedAt ?? null, endedAt: endedAt ?? now, ...failed, node };
  return withAttempt(delivery.history, delivery.dueAt, attempt);
}

/** Returns the row of a completed task. */
export function rowOf(settled: Settled, result: string, now: number, node?: string): DetailedRow {
  const { id, body, attempt: attempts, action, limitKey, submitter } = settled.delivery;
  const { waitedMs, ranMs, attempts: ended } = historyAfter(settled, { reason: null }, now, node);
  const last = ended.at(-1) as Attempt;
  return {
    id,
    payload: body,
    status: 'completed',
    result,
    created_at: createdAt(body),
    processed_at: Math.floor(now / 1000),
    attempts,
    waited_ms: waitedMs,
    ran_ms: ranMs,
    started_at: last.startedAt,
    ended_at: last.endedAt,
    node: node ?? null,
    history: ended.length === 1 ? null : JSON.stringify(ended.slice(0, -1)),
    // The limit key of a callback is its host.
    limit_key: limitKey && action !== CALLBACK_ACTION ? actionText(limitKey) : undefined,
    submitter,
  };
}

/**
 * Returns the change of a message by the death of its process. The death of a suspect is a crash. A callback runs no code of
 * a user, so it is no suspect.
 */
export function deathOf(lost: LostMessage, now: number, node?: string): MessageChange {
  const { attempts, crashes, deaths, history, isCancelRequested, callbackOf, startedAt, dueAt, ...delivery } = lost;
  if (callbackOf !== null) return { delivery, state: 'waiting' };
  if (deaths < SUSPECT_DEATHS || isCancelRequested) return { delivery, state: 'waiting', deaths: deaths + 1 };
  return {
    ...{ delivery, state: 'failed', attempts: attempts + 1, crashes: crashes + 1, deaths: deaths + 1 },
    reason: EXHAUSTED,
    history: JSON.stringify(
      withAttempt(readHistory(history), dueAt, { startedAt, endedAt: now, reason: PROCESS_DIED, node }),
    ),
  };
}

/** Largest slice of dead letters that a redrive or purge changes in one transaction. */
export const BULK_SLICE = { maxLength: 1000, maxBytes: 1024 * 1024 };

/** Dead letters of a slice that were changed, and positions of the dead letters that had no room. */
export interface ChangedSlice {
  done: readonly TaskSubject[];
  kept: readonly number[];
}

/**
 * Changes dead letters, one slice a turn, until a slice changes none although some exist, because the queue is full. The
 * selection is fixed, so that a task that fails again meanwhile is not selected again. The slices before an error count as
 * done.
 *
 * @param selected positions of the dead letters
 * @param change changes in one transaction the first dead letters that have room
 */
export async function changeInSlices(
  selected: readonly number[],
  change: (arrivals: readonly number[]) => Promise<ChangedSlice>,
  onChanged: (tasks: readonly TaskSubject[]) => void = () => {},
): Promise<BulkResult> {
  const done: TaskSubject[] = [];
  let rest = selected;
  try {
    for (let isFull = false; rest.length > 0 && !isFull; await setImmediate()) {
      const slice = await change(rest.slice(0, BULK_SLICE.maxLength));
      done.push(...slice.done);
      onChanged(slice.done);
      rest = [...slice.kept, ...rest.slice(BULK_SLICE.maxLength)];
      isFull = slice.done.length === 0 && slice.kept.length > 0;
    }
  } catch (error) {
    if (done.length === 0) throw error;
  }
  return { done, remaining: rest.length };
}
