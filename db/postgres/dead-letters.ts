import { BULK_SLICE, type ChangedSlice } from '../message-change.ts';
import { deadLetterBounds, subjectOf as subject, type TaskSubject } from '../task-store.ts';
import { addCounts, type Counter, USED, withRounds } from './counts.ts';
import type { BoundStatement, Query } from './database.ts';
import { actionOf } from './tasks.ts';

/** A message of which events tell. Its texts are escaped as in JSON. */
export interface LetterRow {
  id: string;
  action: string | null;
  limit_key: string;
  submitter: string | null;
}

// No statement here waits for the lock of another, so none takes part in a deadlock.
const OLDEST_FIRST = 'ORDER BY failed_at, arrival';

const EVICTED_SLICE = 1000;

const EVICT = `WITH used AS (
    SELECT dead - $3::bigint AS excess, dead_bytes - $4::bigint AS excess_bytes
    FROM (${USED}) AS used
  ), oldest AS (
    SELECT arrival, id, action, limit_key, submitter, bytes, failed_at FROM messages WHERE state = 'failed' ${OLDEST_FIRST}
    LIMIT (SELECT greatest(0, excess, CASE WHEN excess_bytes > 0 THEN ${EVICTED_SLICE} END) FROM used)
    FOR UPDATE SKIP LOCKED
  ), ordered AS (
    SELECT *, row_number() OVER place AS number, sum(bytes) OVER place - bytes AS before
    FROM oldest WINDOW place AS (${OLDEST_FIRST})
  ), chosen AS (
    SELECT ordered.* FROM ordered, used WHERE number <= excess OR before < excess_bytes
  ), deleted AS (
    DELETE FROM messages WHERE arrival = ANY(ARRAY(SELECT arrival FROM chosen))
  ), counted AS (${addCounts(
    { dropped: 'count(*)', dead: '-count(*)', dead_bytes: '-sum(bytes)' },
    'chosen',
  )}) SELECT id, action, limit_key, submitter FROM chosen ${OLDEST_FIRST}`;

export function evict(counter: Counter): BoundStatement {
  return [EVICT, [...counter, deadLetterBounds.maxLength, deadLetterBounds.maxBytes]];
}

/** Repeats {@link evict} while it evicts whole slices. Returns all evicted dead letters, the given first slice included. */
export async function evictAll(query: Query, counter: Counter, first?: readonly LetterRow[]): Promise<TaskSubject[]> {
  const letters = first ?? (await query<LetterRow>(...evict(counter)));
  const more = letters.length < EVICTED_SLICE ? [] : await evictAll(query, counter);
  return [...letters.map(subjectOf), ...more];
}

export function subjectOf({ action, limit_key, ...row }: LetterRow): TaskSubject {
  return subject({ ...row, action: actionOf(action), limit_key: actionOf(limit_key) ?? null });
}

/** A dead letter of a slice. It was not changed if the slice had become too large, or if the queue is full. */
interface BulkRow extends LetterRow {
  arrival: number;
  isDone: boolean;
}

/** Returns a statement that changes the first of the dead letters with the positions `$3`: a slice, or at least one. */
// Unlike `=`, `texteq` leaves the planner only the index on positions.
const bulk = (
  condition: string,
  change: string,
  counts: Parameters<typeof addCounts>[0],
) => `WITH used AS (${USED}), present AS (
    SELECT arrival, id, action, priority, limit_key, submitter, place, bytes,
      octet_length(body) + coalesce(octet_length(callback_url), 0) AS body_bytes, failed_at FROM messages
    WHERE texteq(state, 'failed') AND arrival = ANY($3::bigint[]) ${OLDEST_FIRST} FOR UPDATE SKIP LOCKED
  ), ordered AS (
    SELECT *, row_number() OVER place AS number, sum(bytes) OVER place AS total, sum(body_bytes) OVER place AS body_total
    FROM present WINDOW place AS (${OLDEST_FIRST})
  ), chosen AS (
    SELECT ordered.* FROM ordered, used WHERE (number = 1 OR total <= ${BULK_SLICE.maxBytes}) AND ${condition}
  ), ${withRounds('chosen', 'failed_at, arrival')}, changed AS (
    ${change} messages.arrival = ANY(ARRAY(SELECT arrival FROM chosen))
  ), counted AS (${addCounts({ ...counts, dead: '-count(*)', dead_bytes: '-sum(bytes)' }, 'chosen')})
  SELECT arrival, id, action, limit_key, submitter, arrival IN (SELECT arrival FROM chosen) AS "isDone" FROM ordered ORDER BY number`;

export const REDRIVE = bulk(
  'used.length + number <= $5 AND used.bytes + body_total <= $6',
  `UPDATE messages SET state = CASE WHEN $7::double precision IS NULL THEN 'waiting' ELSE 'scheduled' END,
      run_at = floor($4::double precision + (number - 1) * coalesce($7, 0))::bigint, attempts = 0, crashes = 0, deaths = 0, permanent = false,
      failed_at = NULL, reason = NULL, history = NULL, round = placed.round
    FROM placed WHERE messages.arrival = placed.arrival AND`,
  { bytes: 'sum(body_bytes)', scheduled: 'CASE WHEN $7 IS NULL THEN 0 ELSE count(*) END' },
);
export const PURGE = bulk('true', 'DELETE FROM messages WHERE', { dropped: 'count(*)' });

export function readSlice(rows: readonly BulkRow[]): ChangedSlice {
  const { done = [], kept = [] } = Object.groupBy(rows, ({ isDone }) => (isDone ? 'done' : 'kept'));
  return { done: done.map(subjectOf), kept: kept.map(({ arrival }) => arrival) };
}
