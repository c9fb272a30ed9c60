import { readHistory } from '../attempt-history.ts';
import { type MessageChange, rowOf } from '../message-change.ts';
import { rowColumns } from '../task-rows.ts';
import type * as db from '../task-store.ts';
import { LONGEST_WAIT_MS, STAGED_SLICE, SUSPECT_DEATHS } from '../task-store.ts';
import { addCounts, type Counter, LEAVING_LATER, withRounds } from './counts.ts';
import type { BoundStatement } from './database.ts';
import { actionOf, insertRows, STORE_ROWS, storable } from './tasks.ts';

export type Effect = db.SettleResult['effects'][number];

export type SettledOf<Kind extends db.Settlement['kind']> = db.Settled & { settlement: db.SettlementOf<Kind> };

// A suspect is taken alone: if nothing else is due, or every ten seconds ($4), for which nothing else is taken.
// The first $5 messages are those that have waited longest. `owned` reveals messages of this owner whose take was not
// answered.
const takeOf = (condition: string) => `WITH suspect AS (
    SELECT arrival FROM messages
    WHERE state = 'waiting' AND deaths >= ${SUSPECT_DEATHS} AND NOT (SELECT paused FROM queue_state)
    ORDER BY run_at, arrival LIMIT least(1, $2) FOR UPDATE SKIP LOCKED
  ), room AS (
    SELECT CASE WHEN paused OR ($4 AND EXISTS (SELECT FROM suspect)) THEN 0 ELSE $2::int END AS free FROM queue_state
  ), longest AS (
    SELECT arrival FROM messages WHERE state = 'waiting' AND deaths < ${SUSPECT_DEATHS} ${condition}
    ORDER BY run_at, arrival LIMIT (SELECT least($5::int, free) FROM room) FOR UPDATE SKIP LOCKED
  ), due AS (
    SELECT arrival FROM messages
    WHERE state = 'waiting' AND deaths < ${SUSPECT_DEATHS} ${condition} AND arrival <> ALL(ARRAY(SELECT arrival FROM longest))
    ORDER BY priority, round, run_at, arrival LIMIT (SELECT free - (SELECT count(*) FROM longest) FROM room)
    FOR UPDATE SKIP LOCKED
  ), chosen AS (
    SELECT arrival FROM longest UNION ALL SELECT arrival FROM due
  ), taken AS (
    UPDATE messages SET state = 'running', owner = $1, delivery = delivery + 1, started_at = NULL, progress = NULL
    WHERE arrival = ANY(ARRAY(
      SELECT arrival FROM chosen UNION ALL SELECT arrival FROM suspect WHERE $3 AND NOT EXISTS (SELECT FROM chosen)))
    RETURNING arrival, priority, limit_key AS "limitKey", round, id, action, body, delivery, run_at AS "dueAt", attempts + 1 AS attempt, crashes,
      place IS NOT NULL AND EXISTS (SELECT FROM limits WHERE limits.action = messages.action AND
        (rate_count IS NOT NULL OR key_rate_count IS NOT NULL)) AS "isRated", deaths >= ${SUSPECT_DEATHS} AS "isSuspect", history,
      submitter, traceparent, callback_of AS "callbackOf"
  ), idle AS (SELECT count(*) < $2 AS is_idle FROM taken)
  SELECT taken.*,
    CASE WHEN is_idle THEN (SELECT count(*) FROM messages WHERE state = 'running' AND owner = $1) END AS owned
  FROM idle LEFT JOIN taken ON true ORDER BY priority, round, "dueAt", arrival`;

const TAKE = takeOf('');
const TAKE_CALLBACKS = takeOf('AND callback_of IS NOT NULL');

export interface TakeRow extends Omit<db.Delivery, 'action' | 'history' | 'submitter' | 'traceparent' | 'callbackOf'> {
  action: string | null;
  submitter: string | null;
  traceparent: string | null;
  callbackOf: string | null;
  limitKey: string;
  history: string | null;
  round: number;
  /** Number of messages that this owner was running before, if fewer messages were taken than asked for. */
  owned: number | null;
}

export interface Taking {
  max: number;
  isIdle: boolean;
  /** Number of the messages that are taken because they have waited longest. */
  longest: number;
  areCallbacks?: boolean;
}

/** @param isSuspectsTurn whether a suspect that is due is taken before other messages */
export function take(
  owner: string,
  { max, isIdle, longest, areCallbacks }: Taking,
  isSuspectsTurn: boolean,
): BoundStatement {
  return [areCallbacks ? TAKE_CALLBACKS : TAKE, [owner, max, isIdle, isSuspectsTurn, longest]];
}

const firstDue = (
  state: string,
) => `SELECT arrival, priority, limit_key, place, run_at FROM messages WHERE state = '${state}' AND run_at <= $3
  ORDER BY run_at, arrival LIMIT ${STAGED_SLICE} FOR UPDATE SKIP LOCKED`;
const nextDue = (state: string) => `(SELECT run_at FROM messages WHERE state = '${state}' AND run_at > $3
  ORDER BY run_at LIMIT 1)`;

const STAGE = `WITH scheduled AS (${firstDue('scheduled')}), retrying AS (${firstDue('retrying')}), due AS (
    SELECT * FROM scheduled UNION ALL SELECT * FROM retrying
  ), ${withRounds('due', 'run_at, arrival')}, staged AS (
    UPDATE messages SET state = 'waiting', round = placed.round FROM placed
    WHERE messages.arrival = placed.arrival AND messages.arrival = ANY(ARRAY(SELECT arrival FROM due)) RETURNING 1
  ), counted AS (${addCounts(
    { scheduled: '-(SELECT count(*) FROM scheduled)', retrying: '-(SELECT count(*) FROM retrying)' },
    'staged',
  )}) SELECT CASE WHEN (SELECT count(*) FROM staged) >= ${STAGED_SLICE} THEN $3
    ELSE least(${nextDue('scheduled')}, ${nextDue('retrying')}) END AS "nextDueAt"`;

export const END_STARTS = `SELECT end_starts($1, ${STAGED_SLICE}) AS "nextDueAt"`;

export interface StagedRow {
  nextDueAt: number | null;
}

/** Makes scheduled and retrying messages wait that are due, up to a slice. Returns when the next one is due. */
export function stage(counter: Counter, now: number): BoundStatement {
  return [STAGE, [...counter, now]];
}

/** Makes a scheduled or retrying message due. Returns its former state. */
export const RUN_NOW = `WITH found AS (
    SELECT arrival, id, action, limit_key, submitter, state FROM messages WHERE id = $3 FOR UPDATE
  ), changed AS (
    UPDATE messages SET state = 'waiting', run_at = $4, round = next_round(priority, limit_key)
    WHERE arrival = ANY(ARRAY(SELECT arrival FROM found WHERE state IN ('scheduled', 'retrying')))
  ), counted AS (${addCounts(LEAVING_LATER, "found WHERE state IN ('scheduled', 'retrying')")})
  SELECT id, state, action, limit_key, submitter FROM found`;

/** Returns the taken messages. If there is none, the only row is empty. */
export function deliveriesOf(rows: readonly TakeRow[]): db.Delivery[] {
  const taken = rows.filter(({ id }) => id !== null);
  return taken.map(
    ({ round: _round, owned: _owned, action, limitKey, history, submitter, traceparent, callbackOf, ...delivery }) => {
      const given = {
        action: actionOf(action),
        limitKey: actionOf(limitKey) || undefined,
        submitter: submitter ?? undefined,
        traceparent: traceparent ?? undefined,
      };
      return { ...delivery, ...given, callbackOf: callbackOf ?? undefined, history: readHistory(history) };
    },
  );
}

// A settlement names the delivery, so that a late one changes nothing. Messages are found by an array of their positions,
// because the planner joins a table that it takes for small by reading all of it. Unlike `=`, `texteq` leaves it no other
// index, so messages are locked in order.
const FENCE =
  "messages.arrival = given.arrival AND messages.delivery = given.delivery AND texteq(messages.state, 'running')";
const IS_PRESENT = 'messages.arrival = ANY(ARRAY(SELECT arrival FROM present))';

// What is given for a task is its row, without the payload. Its status is the kind of settlement if that leaves no row.
const END = `WITH given AS (
    SELECT * FROM json_populate_recordset(NULL::tasks, $3)
  ), ended AS (
    DELETE FROM messages USING given WHERE ${FENCE} AND messages.arrival = ANY(ARRAY(SELECT arrival FROM given))
    RETURNING body, bytes, given.*
  ), stored AS (${insertRows(
    `SELECT ${rowColumns.detailed.replace('payload', 'body')}, arrival, delivery FROM ended WHERE status = 'completed'`,
  )}), acked AS (
    INSERT INTO acks SELECT arrival, delivery, $4 FROM ended WHERE status = 'ack'
  ), counted AS (${addCounts(
    {
      completed: "count(*) FILTER (WHERE status <> 'cancel')",
      cancelled: "count(*) FILTER (WHERE status = 'cancel')",
      bytes: '-sum(bytes)',
    },
    'ended',
  )}) SELECT arrival, delivery, 'applied' AS effect FROM ended`;

export interface SettledRow {
  arrival: number;
  delivery: number;
  effect: Effect;
}

/** Deletes the messages of settlements that complete, ack or cancel, and writes rows. `settled` is sorted by arrival. */
export function end(counter: Counter, settled: readonly db.Settled[], now: number, node: string): BoundStatement {
  const given = settled.map((each) => {
    const { delivery, settlement } = each;
    const { payload: _, ...row } =
      settlement.kind === 'complete' ? rowOf(each, settlement.result, now, node) : { status: settlement.kind };
    return { ...row, arrival: delivery.arrival, delivery: delivery.delivery };
  });
  return [END, [...counter, JSON.stringify(given), now]];
}

/** Writes the rows of messages that were acked before. */
export function rowsOf(settled: readonly SettledOf<'row'>[], now: number, node: string): BoundStatement {
  // PostgreSQL does not replace a row twice in one statement.
  const last = [...new Map(settled.map((each) => [each.delivery.id, each])).values()];
  const given = last.map((each) => {
    return { ...rowOf(each, each.settlement.result, now, node), arrival: each.delivery.arrival };
  });
  return [STORE_ROWS, [JSON.stringify(given)]];
}

const PUT_BACK = `WITH given AS (
    SELECT * FROM json_to_recordset($3::json) AS given (arrival bigint, delivery int, state text, "runAt" bigint,
      attempts int, crashes int, deaths int, reason text, history text, "isPermanent" boolean)
  ), present AS (
    SELECT given.*, message.bytes, cancel_requested AND given.state <> 'failed' AS is_cancelled
    FROM given, LATERAL (SELECT bytes, cancel_requested FROM messages WHERE ${FENCE} FOR UPDATE) AS message
  ), cancelled AS (
    DELETE FROM messages USING present
    WHERE messages.arrival = present.arrival AND present.is_cancelled AND ${IS_PRESENT}
  ), kept AS (
    UPDATE messages SET state = present.state, owner = NULL, started_at = NULL, progress = NULL,
      run_at = coalesce(present."runAt", messages.run_at), attempts = coalesce(present.attempts, messages.attempts),
      crashes = coalesce(present.crashes, messages.crashes), deaths = coalesce(present.deaths, messages.deaths),
      reason = coalesce(present.reason, messages.reason), history = coalesce(present.history, messages.history),
      permanent = coalesce(present."isPermanent", false), cancel_requested = false,
      failed_at = CASE present.state WHEN 'failed' THEN $4::bigint END
    FROM present WHERE messages.arrival = present.arrival AND NOT present.is_cancelled AND ${IS_PRESENT}
    RETURNING messages.state, messages.bytes, present.bytes AS former_bytes, present.attempts
  ), changed AS (
    SELECT * FROM kept UNION ALL SELECT 'cancelled', 0, bytes, NULL FROM present WHERE is_cancelled
  ), counted AS (${addCounts(
    {
      retried: "count(*) FILTER (WHERE state <> 'failed' AND attempts IS NOT NULL)",
      retrying: "count(*) FILTER (WHERE state = 'retrying')",
      failed: "count(*) FILTER (WHERE state = 'failed')",
      cancelled: "count(*) FILTER (WHERE state = 'cancelled')",
      dead: "count(*) FILTER (WHERE state = 'failed')",
      dead_bytes: "coalesce(sum(bytes) FILTER (WHERE state = 'failed'), 0)",
      bytes: "coalesce(sum(bytes) FILTER (WHERE state <> 'failed'), 0) - sum(former_bytes)",
    },
    'changed',
  )}), unstarted AS MATERIALIZED (
    SELECT set_config('tasks.unstarted', array_agg(arrival)::text, true) FROM present
    WHERE is_cancelled AND state = 'waiting' AND deaths IS NULL
  ) SELECT arrival, delivery, CASE WHEN is_cancelled THEN 'cancelled' ELSE 'applied' END AS effect
    FROM present, unstarted`;

/**
 * Changes running messages. Deletes a message that would wait if its cancellation was requested. Tells the triggers which
 * handlers had not started. `changes` are sorted by arrival.
 */
export function putBack(counter: Counter, changes: readonly MessageChange[], now: number): BoundStatement {
  const given = changes.map(({ delivery: { arrival, delivery }, reason, ...change }) => {
    return { arrival, delivery, reason: reason && storable(reason), ...change };
  });
  return [PUT_BACK, [...counter, JSON.stringify(given), now]];
}

/**
 * Locks messages in the order of their positions, as each statement does. First in a transaction that changes messages by
 * several statements, which would otherwise wait for each other with another transaction.
 */
export const LOCK_MESSAGES = 'SELECT FROM messages WHERE arrival = ANY($1::bigint[]) ORDER BY arrival FOR UPDATE';

/** Messages of an owner except those with the given positions. */
export const LOST_ANSWER = `SELECT arrival, delivery FROM messages
    WHERE state = 'running' AND owner = $1 AND arrival <> ALL($2::bigint[]) ORDER BY arrival`;

/** Locks messages of an owner, without waiting. */
export const LOST_MESSAGES = `SELECT arrival, delivery, id, action, limit_key, submitter, attempts, crashes, deaths, history,
    started_at AS "startedAt", run_at AS "dueAt", callback_of AS "callbackOf", cancel_requested AS "isCancelRequested"
  FROM messages
  WHERE state = 'running' AND owner = $1 ORDER BY arrival LIMIT $2 FOR UPDATE SKIP LOCKED`;

const REPORT = `WITH given AS (
    SELECT * FROM json_to_recordset($1::json) AS given (arrival bigint, delivery int, "startedAt" bigint, progress text)
  ) UPDATE messages SET started_at = given."startedAt", progress = given.progress FROM given
    WHERE ${FENCE} AND messages.arrival = ANY(ARRAY(SELECT arrival FROM given))`;

/** Stores starts and progress. `running` is sorted by arrival. */
export function report(running: readonly db.Report[]): BoundStatement {
  const given = running.map(({ delivery: { arrival, delivery }, startedAt, progress }) => {
    return { arrival, delivery, startedAt, progress: progress && JSON.stringify(progress) };
  });
  return [REPORT, [JSON.stringify(given)]];
}

/** Deletes messages, or requests the cancellation of running ones. Returns their former states. */
export const CANCEL = `WITH found AS (
    SELECT arrival, id, action, limit_key, submitter, state, bytes FROM messages
    WHERE arrival = ANY(ARRAY(SELECT arrival FROM messages WHERE id = ANY($3::text[]))) AND state <> 'failed'
    ORDER BY arrival FOR UPDATE
  ), deleted AS (
    DELETE FROM messages WHERE arrival = ANY(ARRAY(SELECT arrival FROM found WHERE state <> 'running'))
  ), requested AS (
    UPDATE messages SET cancel_requested = true
    WHERE arrival = ANY(ARRAY(SELECT arrival FROM found WHERE state = 'running'))
  ), counted AS (${addCounts(
    { cancelled: 'count(*)', bytes: '-sum(bytes)', ...LEAVING_LATER },
    "found WHERE state <> 'running'",
  )})
  SELECT id, state, action, limit_key, submitter FROM found`;

/** Returns a row for each task that is completed or dead-lettered. */
export const ENDED = `SELECT id, action FROM messages WHERE id = ANY($1::text[])
  UNION ALL SELECT id, NULL FROM tasks WHERE id = ANY($1::text[])`;

const APPLIED = `SELECT arrival, delivery, 'applied' AS effect
  FROM json_to_recordset($1::json) AS given (arrival bigint, delivery int, id text, kind text, attempts int, reason text)
  WHERE CASE kind
    WHEN 'complete' THEN EXISTS (SELECT FROM tasks WHERE tasks.id = given.id AND tasks.delivery = given.delivery)
    WHEN 'ack' THEN EXISTS (SELECT FROM acks WHERE acks.arrival = given.arrival AND acks.delivery = given.delivery)
    ELSE EXISTS (SELECT FROM messages WHERE messages.arrival = given.arrival AND messages.delivery = given.delivery
      AND state = ANY(CASE WHEN kind = 'discard' THEN ARRAY['failed']
        WHEN kind IN ('retry', 'release') THEN ARRAY['waiting', 'retrying', 'limited'] END)
      AND messages.attempts = given.attempts AND (given.reason IS NULL OR messages.reason = given.reason)) END`;

/** Finds settlements that have been applied although their answer was lost. A cancellation leaves no trace. */
export function applied(settled: readonly db.Settled[]): BoundStatement {
  const given = settled.map(({ delivery: { arrival, delivery, id, attempt }, settlement }) => {
    const { kind } = settlement;
    const reason = 'reason' in settlement ? storable(settlement.reason) : undefined;
    return { arrival, delivery, id, kind, reason, attempts: attempt - Number(kind === 'release') };
  });
  return [APPLIED, [JSON.stringify(given)]];
}

export const CANCEL_REQUESTS =
  "SELECT id FROM messages WHERE id = ANY($1::text[]) AND state = 'running' AND cancel_requested";

/**
 * Corrects times that lie in the future because a clock was set back. Deletes the acks of processes that died before they
 * wrote the rows. A node that stands still longer acks too late.
 */
export const START = `WITH old AS (DELETE FROM acks WHERE acked_at < $1::bigint - 3600000), corrected AS (
    UPDATE limit_starts SET ends_at = $1 + period FROM (
      SELECT id, CASE limit_key WHEN '' THEN rate_ms ELSE key_rate_ms END AS period FROM limit_starts JOIN limits USING (action)
    ) AS start WHERE start.id = limit_starts.id AND ends_at > $1 + period
  ) UPDATE messages SET run_at = CASE state WHEN 'retrying' THEN $1 + ${LONGEST_WAIT_MS} ELSE $1 END
  WHERE (state IN ('waiting', 'limited') AND run_at > $1) OR (state = 'retrying' AND run_at > $1 + ${LONGEST_WAIT_MS})`;

export const SET_LIMITS = 'SELECT set_limits($1, $2, $3)';

/** The limits of the action $1, or of all actions, with the use of their own, or of that of the key $2 unless this is empty. */
export const LIMITS = `SELECT action, source, definition,
    (SELECT count(*) FROM messages WHERE state = 'running' AND messages.action = limits.action
      AND ($2::text = '' OR messages.limit_key = $2)) AS running,
    (SELECT min(ends_at) FROM limit_starts JOIN limit_uses USING (action, limit_key)
      WHERE action = limits.action AND limit_key = $2
        AND starts >= CASE $2 WHEN '' THEN rate_count ELSE key_rate_count END) AS "nextStartAt"
  FROM limits WHERE $1::text IS NULL OR action = $1 ORDER BY action`;

export interface LimitUseRow extends Omit<db.SetLimits, 'limits'> {
  definition: db.ActionLimits;
  running: number;
  nextStartAt: number | null;
}
