import type { DeadLetter, Progress } from '../queue/queue.ts';

/** Response body for the state of a task without a row. Times are Unix seconds. */
export function unfinishedTask(id: string, progress: Progress): object {
  switch (progress.state) {
    case 'queued':
      return { id, status: 'queued' };
    case 'running':
      return { id, status: 'running', attempt: progress.attempt };
    case 'retrying': {
      const { attempts, reason, dueAt } = progress;
      return { id, status: 'retrying', attempts, reason, next_attempt_at: Math.ceil(dueAt / 1000) };
    }
    case 'failed':
      return failedTask(progress.letter);
  }
}

/** Response body for a dead letter, accepted at `first_at` and discarded at `last_at`, in Unix seconds. */
export function failedTask({ id, body, reason, attempts, acceptedAt, failedAt }: DeadLetter) {
  const [first_at, last_at] = [acceptedAt, failedAt].map((ms) => Math.floor(ms / 1000));
  return { id, status: 'failed', payload: body, reason, attempts, first_at, last_at };
}
