import type { AttemptHistory } from '../../../db/attempt-history.ts';
import { actionStart, cut } from '../../../workers/parse-submission.ts';
import type { DeadLetter, ListedTask, Progress, UnfinishedState } from '../queue/queue.ts';

const SUMMARY_PAYLOAD_LENGTH = 256;

/** Returns the response body for a task that has no result row, because it is unfinished or failed. */
export function unfinishedTask(id: string, progress: Progress): object {
  if (progress.state === 'failed') return failedTask(progress.letter);
  const { body: payload, acceptedAt: accepted_at_ms } = progress;
  const fields = { ...stateFields(progress), payload, accepted_at_ms, history: historyOf(progress) };
  return { id, status: progress.state, ...fields };
}

/** Returns an unfinished task's entry in the response to `GET /queue/tasks`. */
export function listedTask({ id, action, acceptedAt, payload, payloadBytes, progress }: ListedTask): object {
  const start = { id, action: action ?? null, status: progress.state, accepted_at_ms: acceptedAt };
  return { ...start, payload, payload_bytes: payloadBytes, ...stateFields(progress) };
}

function stateFields(state: UnfinishedState): object {
  switch (state.state) {
    case 'queued':
      return {};
    case 'running': {
      const { attempt, startedAt: started_at_ms, progress } = state;
      return { attempt, ...(progress && { progress }), ...(started_at_ms !== undefined && { started_at_ms }) };
    }
    case 'retrying':
      return retryFields(state);
  }
}

/** Returns the JSON fields that describe the last failed and the next attempt of a task. */
export function retryFields({ attempts, reason, dueAt }: RetryState) {
  return { attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000), next_attempt_at_ms: Math.ceil(dueAt) };
}

type RetryState = Omit<Extract<UnfinishedState, { state: 'retrying' }>, 'state'>;

/** Returns the response body for a dead letter. `first_at` (accepted) and `last_at` (failed) are in Unix seconds. */
export function failedTask(letter: DeadLetter): object {
  const { id, body } = letter;
  return { id, status: 'failed', payload: body, ...failureOf(letter), history: historyOf(letter) };
}

/** Returns a dead letter's entry in a listing, without its history and with only the start of its payload. */
export function failedTaskSummary(letter: DeadLetter): object {
  const { id, body } = letter;
  const action = actionStart(body) ?? null;
  const payload = { payload: cut(body, SUMMARY_PAYLOAD_LENGTH), payload_bytes: Buffer.byteLength(body) };
  return { id, action, status: 'failed', ...payload, ...failureOf(letter) };
}

function failureOf({ reason, attempts, permanent, acceptedAt, failedAt }: DeadLetter) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { reason, attempts, permanent, first_at, last_at };
}

function historyOf({ history }: { history: AttemptHistory }) {
  return history.map(({ at, reason }) => ({ at_ms: at, reason }));
}
