import { actionText } from '../task-rows.ts';
import {
  type IdempotencyKey,
  KEY_LIFETIME_MS,
  KeyReused,
  NORMAL_PRIORITY,
  type Published,
  type QueueBounds,
  QueueFull,
  type Submission,
  sizeOf,
} from '../task-store.ts';
import { addCounts, type Counter, lockLimits, USED, withRounds } from './counts.ts';
import { type BoundStatement, LONG_LIMIT_MS, type PostgresDatabase, type Query } from './database.ts';

/** More than a batch of submissions adds, and few enough for the statement's timeout after the bound was lowered. */
const MAX_EVICTED_KEYS = 2000;

// None if nothing is accepted, because the counts would not change then.
const EXCESS_KEYS = `SELECT CASE WHEN EXISTS (SELECT FROM accepted)
  THEN least(${MAX_EVICTED_KEYS}, greatest(0, keys + (SELECT count(*) FROM keyed WHERE is_new) - $7)) ELSE 0 END FROM used`;

// Accepts the first submissions up to the first that does not fit, and each key once. Known keys need no room. Waits for
// concurrent submissions with the same keys, in an order that all nodes use. Replaces expired keys, and evicts the oldest.
const PUBLISH = `WITH given AS (
    SELECT * FROM ROWS FROM (json_to_recordset($3) AS (id text, action text, body text, key text, fingerprint text,
      priority smallint, run_at bigint, limit_key text, submitter text, schedule text, traceparent text, callback_url text))
      WITH ORDINALITY
  ), unknown AS (
    SELECT *, row_number() OVER w AS number,
      sum(octet_length(body) + coalesce(octet_length(callback_url), 0)) OVER w AS total
    FROM given WHERE key IS NULL OR NOT EXISTS (SELECT FROM idempotency_keys AS known
      WHERE known.key = given.key AND known.accepted_at > $4::bigint - ${KEY_LIFETIME_MS})
    WINDOW w AS (ORDER BY ordinality)
  ), used AS (${USED}), fitting AS (
    SELECT unknown.* FROM unknown, used WHERE length + number <= $5 AND bytes + total <= $6
  ), keyed AS (
    INSERT INTO idempotency_keys AS former (key, fingerprint, task_id, accepted_at)
    SELECT key, fingerprint, id, $4::bigint FROM fitting WHERE key IS NOT NULL ORDER BY key
    ON CONFLICT (key) DO UPDATE
      SET fingerprint = excluded.fingerprint, task_id = excluded.task_id, accepted_at = excluded.accepted_at,
        position = DEFAULT
      WHERE former.accepted_at <= $4::bigint - ${KEY_LIFETIME_MS}
    RETURNING key, xmax = 0 AS is_new
  ), fresh AS (
    SELECT *, (SELECT 0 FROM limits WHERE limits.action = fitting.action) AS place
    FROM fitting WHERE key IS NULL OR key IN (SELECT key FROM keyed)
  ), ${withRounds('fresh', 'run_at IS NOT NULL, ordinality')}, accepted AS (
    INSERT INTO messages (id, action, state, priority, limit_key, round, place, run_at, accepted_at, submitter,
      schedule, traceparent, callback_url, body)
    SELECT id, action, CASE WHEN run_at IS NULL THEN 'waiting' ELSE 'scheduled' END, priority, limit_key, round,
      place, coalesce(run_at, $4::bigint), $4::bigint, submitter, schedule, traceparent, callback_url, body FROM placed
    ORDER BY ordinality
    RETURNING id, bytes, state
  ), evicted AS (
    DELETE FROM idempotency_keys WHERE key = ANY(ARRAY(
      SELECT key FROM idempotency_keys WHERE key <> ALL(ARRAY(SELECT key FROM given WHERE key IS NOT NULL))
      ORDER BY position LIMIT (${EXCESS_KEYS}) FOR UPDATE SKIP LOCKED
    )) RETURNING key
  ), counted AS (${addCounts(
    {
      accepted: 'count(*)',
      scheduled: "count(*) FILTER (WHERE state = 'scheduled')",
      bytes: 'sum(bytes)',
      keys: '(SELECT count(*) FROM keyed WHERE is_new) - (SELECT count(*) FROM evicted)',
    },
    'accepted',
  )}) SELECT length + (SELECT count(*) FROM accepted) AS length,
    bytes + (SELECT coalesce(sum(bytes), 0)::bigint FROM accepted) AS bytes, ARRAY(SELECT id FROM accepted) AS ids
  FROM used`;

/** What {@link publish} returns: number and size of the messages in the queue, and the ids of the accepted ones. */
export interface Room {
  length: number;
  bytes: number;
  ids: string[];
}

const KNOWN_KEYS = `SELECT key, fingerprint, task_id AS id FROM idempotency_keys
    WHERE key = ANY($1::text[]) AND accepted_at > $2::bigint - ${KEY_LIFETIME_MS}`;

interface KnownKey extends IdempotencyKey {
  id: string;
}

/** Accepts submissions with different keys: the first up to the first that does not fit. */
export function publish(
  counter: Counter,
  submissions: readonly Submission[],
  now: number,
  { maxLength, maxBytes, maxKeys }: QueueBounds,
): BoundStatement {
  const given = submissions.map(({ message, key }) => {
    const { id, action, body, priority = NORMAL_PRIORITY, runAt, limitKey = '', schedule, traceparent } = message;
    return {
      ...{ id, body, priority, run_at: runAt, schedule, traceparent, callback_url: message.callbackUrl },
      ...{ action: action && actionText(action), limit_key: actionText(limitKey) },
      ...{ submitter: message.submitter, key: key?.key, fingerprint: key?.fingerprint },
    };
  });
  return [PUBLISH, [...counter, JSON.stringify(given), now, maxLength, maxBytes, maxKeys]];
}

/** Accepts as many submissions as fit. Each transaction accepts those up to the first that does not fit. */
export async function publishAll(
  database: PostgresDatabase,
  counter: Counter,
  submissions: readonly Submission[],
  now: number,
  bounds: QueueBounds,
): Promise<(Published | Error)[]> {
  const results = new Map<Submission, Published | Error>();
  for (let rest = submissions; rest.length > 0; rest = rest.filter((each) => !results.has(each))) {
    try {
      const batch = firstOfKeys(rest);
      const statements = [lockLimits(now, actionsOf(batch)), publish(counter, batch, now, bounds)];
      const keys = rest.flatMap(({ key }) => key?.key ?? []);
      if (keys.length > 0) statements.push([KNOWN_KEYS, [keys, now]]);
      const length = batch.reduce((sum, { message }) => sum + message.body.length, 0);
      const [, [room], known = []] = (await database.batch(statements, { length })) as [unknown, [Room], KnownKey[]?];
      answer(rest, room, known, bounds, results);
    } catch (error) {
      // A transaction before this one may have accepted some.
      if (results.size === 0) throw error;
      for (const each of rest) results.set(each, error as Error);
    }
  }
  return submissions.map((each) => results.get(each) as Published | Error);
}

/**
 * Accepts all submissions in one transaction. If keys belong to other submissions, accepts nothing and returns their errors.
 *
 * @throws {QueueFull}
 */
export async function publishTogether(
  database: PostgresDatabase,
  counter: Counter,
  submissions: readonly Submission[],
  now: number,
  bounds: QueueBounds,
): Promise<(Published | KeyReused)[]> {
  const work = async (query: Query) => {
    await query(...lockLimits(now, actionsOf(submissions)));
    const [room] = await query<Room>(...publish(counter, firstOfKeys(submissions), now, bounds));
    const keys = submissions.flatMap(({ key }) => key?.key ?? []);
    const known = keys.length === 0 ? [] : await query<KnownKey>(KNOWN_KEYS, [keys, now]);
    const answers = new Map<Submission, Published | Error>();
    answer(submissions, room as Room, known, bounds, answers);
    // A submission has no answer if its key has just expired.
    return submissions.map((each) => answers.get(each) ?? new QueueFull('a key has just expired'));
  };
  const isKept = (results: readonly (Published | Error)[]) => results.every((each) => !(each instanceof Error));
  const results = await database.transaction(work, { timeLimitMs: LONG_LIMIT_MS, isKept });
  const full = results.find((each) => each instanceof QueueFull);
  if (full !== undefined) throw full;
  if (isKept(results)) return results as Published[];
  return results.map((each) => (each instanceof Error ? each : { ...each, isNew: false }));
}

/** Answers submissions, except a submission that fits and was not accepted yet. */
function answer(
  submissions: readonly Submission[],
  { ids, length, bytes }: Room,
  known: readonly KnownKey[],
  { maxLength, maxBytes }: QueueBounds,
  results: Map<Submission, Published | Error>,
): void {
  const accepted = new Set(ids);
  const byKey = new Map(known.map((each) => [each.key, each]));
  for (const each of submissions) {
    const { message, key } = each;
    const size = sizeOf(message);
    const found = key && byKey.get(key.key);
    if (accepted.has(message.id)) results.set(each, { id: message.id, isNew: true });
    else if (found !== undefined)
      results.set(each, found.fingerprint === key?.fingerprint ? { id: found.id, isNew: false } : new KeyReused());
    else if (length >= maxLength) results.set(each, new QueueFull(`the queue holds ${length} messages`));
    else if (bytes + size > maxBytes) results.set(each, new QueueFull(`the queue holds ${bytes} bytes`));
    else {
      length += 1;
      bytes += size;
    }
  }
}

const actionsOf = (submissions: readonly Submission[]) => submissions.map(({ message }) => message.action);

/** Returns the submissions without keys, and the first of each key. */
function firstOfKeys(submissions: readonly Submission[]): Submission[] {
  const keys = new Set<string>();
  return submissions.filter(({ key }) => key === undefined || keys.size < keys.add(key.key).size);
}
