import type { ParameterizedContext } from 'koa';
import type { Attempt } from '../../../db/attempt-history.ts';
import { type DetailedRow, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import type { StoredMessage } from '../../../db/task-store.ts';
import { cut } from '../../../workers/submissions/parse-submission.ts';
import { replyJson } from '../../http/json-reply.ts';
import { causeOf } from '../causes.ts';

/** Returns the response body for a completed task. A row of an older version has only the fields of the specification. */
export function completedTask(detailed: DetailedRow): object {
  const { limit_key: _, submitter: __, started_at = null, ended_at, node, history, ...shown } = detailed;
  const { attempts, waited_ms, ran_ms, ...row } = shown;
  if (ended_at == null) return row;
  const failed: Attempt[] = history == null ? [] : JSON.parse(history);
  const last = { startedAt: started_at, endedAt: ended_at, reason: null, node: node ?? undefined };
  return { ...row, attempts, waited_ms, ran_ms, history: attemptFields([...failed, last]) };
}

/** Returns the response body for a task that has no result row, because it is unfinished or failed. */
export function unfinishedTask(message: StoredMessage): object {
  if (message.state === 'failed') return failedTask(message);
  const { id, body: payload, acceptedAt: accepted_at_ms } = message;
  const fields = { ...stateFields(message), ...orderFields(message), ...originFields(message) };
  return { id, ...fields, payload, accepted_at_ms, history: attemptFields(message.history.attempts) };
}

/** Returns an unfinished task's entry in the response to `GET /queue/tasks`. @param limit the limit that it waits for */
export function listedTask(message: StoredMessage, limit?: object): object {
  const { id, action = null, acceptedAt: accepted_at_ms } = message;
  const { status, ...fields } = stateFields(message);
  return { id, action, status, ...orderFields(message), accepted_at_ms, ...payloadStart(message), ...fields, limit };
}

function originFields({ schedule, traceparent, callbackUrl }: StoredMessage) {
  return { schedule, traceparent, callback_url: callbackUrl };
}

function orderFields({ priority, limitKey }: StoredMessage) {
  return { priority, ...(limitKey !== undefined && { limit_key: limitKey }) };
}

/** A message that was taken but not started is `queued`. */
function stateFields({ state, startedAt, progress, attempts, reason, runAt, limitedBy }: StoredMessage) {
  if (state === 'running' && startedAt !== undefined) {
    return { status: 'running', attempt: attempts + 1, ...(progress && { progress }), started_at_ms: startedAt };
  }
  if (state === 'retrying') {
    return { status: 'retrying', ...retryFields({ attempts, reason: reason ?? '', dueAt: runAt }) };
  }
  if (state === 'scheduled') return { status: 'scheduled', run_at_ms: runAt };
  if (state === 'limited') return { status: 'limited', limited_by: limitedBy };
  return { status: 'queued' };
}

export function retryFields({ attempts, reason, dueAt }: { attempts: number; reason: string; dueAt: number }) {
  return { attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000), next_attempt_at_ms: Math.ceil(dueAt) };
}

/** Returns the response body for a dead letter. `first_at` (accepted) and `last_at` (failed) are in Unix seconds. */
export function failedTask(message: StoredMessage): object {
  const { id, body: payload } = message;
  const { waitedMs: waited_ms, ranMs: ran_ms, attempts } = message.history;
  const fields = { ...orderFields(message), ...originFields(message), payload, ...failureOf(message) };
  return { id, status: 'failed', ...fields, waited_ms, ran_ms, history: attemptFields(attempts) };
}

/** Returns a dead letter's entry in a listing, without its history and with only the start of its payload. */
export function failedTaskSummary(message: StoredMessage): object {
  const { id, action = null, reason } = message;
  const fields = { ...orderFields(message), ...payloadStart(message), ...failureOf(message) };
  return { id, action, status: 'failed', ...fields, cause: causeOf(reason) };
}

function payloadStart({ body, bodyBytes }: StoredMessage) {
  return { payload: cut(body, SUMMARY_LENGTH), payload_bytes: bodyBytes };
}

function failureOf({ reason, attempts, isPermanent: permanent, acceptedAt, failedAt = acceptedAt }: StoredMessage) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { reason, attempts, permanent, first_at, last_at };
}

function attemptFields(attempts: readonly Attempt[]) {
  return attempts.map(({ startedAt, endedAt, ...others }) => {
    return { started_at_ms: startedAt, ended_at_ms: endedAt, ...others };
  });
}

export function replyQueued(ctx: ParameterizedContext, id: string, status: 'queued' | 'running' = 'queued'): void {
  replyJson(ctx, 202, { id, status }, { Location: `/tasks/${id}` });
}
