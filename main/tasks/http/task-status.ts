import type { ParameterizedContext } from 'koa';
import type { AttemptHistory } from '../../../db/attempt-history.ts';
import { SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import type { StoredMessage } from '../../../db/task-store.ts';
import { cut } from '../../../workers/submissions/parse-submission.ts';
import { replyJson } from '../../http/json-reply.ts';

/** Returns the response body for a task that has no result row, because it is unfinished or failed. */
export function unfinishedTask(message: StoredMessage): object {
  if (message.state === 'failed') return failedTask(message);
  const { id, priority, body: payload, acceptedAt: accepted_at_ms } = message;
  return { id, ...stateFields(message), priority, payload, accepted_at_ms, history: historyOf(message) };
}

/** Returns an unfinished task's entry in the response to `GET /queue/tasks`. */
export function listedTask(message: StoredMessage): object {
  const { id, action = null, priority, acceptedAt: accepted_at_ms } = message;
  const { status, ...fields } = stateFields(message);
  return { id, action, status, priority, accepted_at_ms, ...payloadStart(message), ...fields };
}

/** A message that was taken but not started is `queued`. */
function stateFields({ state, startedAt, progress, attempts, reason, runAt }: StoredMessage) {
  if (state === 'running' && startedAt !== undefined) {
    return { status: 'running', attempt: attempts + 1, ...(progress && { progress }), started_at_ms: startedAt };
  }
  if (state === 'retrying') {
    return { status: 'retrying', ...retryFields({ attempts, reason: reason ?? '', dueAt: runAt }) };
  }
  if (state === 'scheduled') return { status: 'scheduled', run_at_ms: runAt };
  return { status: 'queued' };
}

/** Returns the JSON fields that describe the last failed and the next attempt of a task. */
export function retryFields({ attempts, reason, dueAt }: { attempts: number; reason: string; dueAt: number }) {
  return { attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000), next_attempt_at_ms: Math.ceil(dueAt) };
}

/** Returns the response body for a dead letter. `first_at` (accepted) and `last_at` (failed) are in Unix seconds. */
export function failedTask(message: StoredMessage): object {
  const { id, priority, body } = message;
  return { id, status: 'failed', priority, payload: body, ...failureOf(message), history: historyOf(message) };
}

/** Returns a dead letter's entry in a listing, without its history and with only the start of its payload. */
export function failedTaskSummary(message: StoredMessage): object {
  const { id, action = null, priority } = message;
  return { id, action, status: 'failed', priority, ...payloadStart(message), ...failureOf(message) };
}

function payloadStart({ body, bodyBytes }: StoredMessage) {
  return { payload: cut(body, SUMMARY_LENGTH), payload_bytes: bodyBytes };
}

function failureOf({ reason, attempts, isPermanent: permanent, acceptedAt, failedAt = acceptedAt }: StoredMessage) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { reason, attempts, permanent, first_at, last_at };
}

function historyOf({ history }: { history: AttemptHistory }) {
  return history.map(({ at, reason }) => ({ at_ms: at, reason }));
}

/** Responds 202 to a task that was accepted. */
export function replyQueued(ctx: ParameterizedContext, id: string, status: 'queued' | 'running' = 'queued'): void {
  replyJson(ctx, 202, { id, status }, { Location: `/tasks/${id}` });
}
