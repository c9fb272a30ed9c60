import type { DeadLetter, Progress } from '../queue/queue.ts';

/** Returns the response body for an unfinished or failed task, which has no stored row. Times are Unix seconds. */
export function unfinishedTask(id: string, progress: Progress): object {
  switch (progress.state) {
    case 'queued':
      return { id, status: 'queued' };
    case 'running':
      return {
        id,
        status: 'running',
        attempt: progress.attempt,
        ...(progress.progress && { progress: progress.progress }),
      };
    case 'retrying': {
      const { attempts, reason, dueAt } = progress;
      return { id, status: 'retrying', attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000) };
    }
    case 'failed':
      return failedTask(progress.letter);
  }
}

/** Returns the response body for a dead letter. `first_at` (accepted) and `last_at` (failed) are in Unix seconds. */
export function failedTask({ id, body, reason, attempts, acceptedAt, failedAt }: DeadLetter) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { id, status: 'failed', payload: body, reason, attempts, first_at, last_at };
}
