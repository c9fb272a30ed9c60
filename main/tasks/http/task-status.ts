import type { DeadLetter, ListedTask, Progress, UnfinishedState } from '../queue/queue.ts';

/** Returns the response body for an unfinished or failed task, which has no stored row. Times are Unix seconds. */
export function unfinishedTask(id: string, progress: Progress): object {
  if (progress.state === 'failed') return failedTask(progress.letter);
  const { body: payload, acceptedAt: accepted_at_ms } = progress;
  return { id, status: progress.state, ...stateFields(progress), payload, accepted_at_ms };
}

/** Returns the response body for an unfinished task in a list. */
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

/** Returns the fields of a task whose last attempt failed and that will be retried. */
export function retryFields({ attempts, reason, dueAt }: RetryState) {
  return { attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000), next_attempt_at_ms: Math.ceil(dueAt) };
}

type RetryState = Omit<Extract<UnfinishedState, { state: 'retrying' }>, 'state'>;

/** Returns the response body for a dead letter. `first_at` (accepted) and `last_at` (failed) are in Unix seconds. */
export function failedTask({ id, body, reason, attempts, acceptedAt, failedAt }: DeadLetter) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { id, status: 'failed', payload: body, reason, attempts, first_at, last_at };
}
