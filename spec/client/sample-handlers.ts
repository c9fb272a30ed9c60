import { setTimeout as sleep } from 'node:timers/promises';
import { defineHandlers, PermanentError, RetryAfter } from '../../workers/tasks/handlers-api.ts';

export default defineHandlers({
  resize: {
    async handler({ width }: { width: number }, { progress }) {
      progress(0.5, 'half');
      return { width, at: new Date(0) };
    },
  },
  second: (_: object, { attempt }) => {
    if (attempt === 1) throw new RetryAfter(50, 'not yet');
    return attempt;
  },
  fail: () => {
    throw new PermanentError('never');
  },
  early: async ({ ms }: { ms: number }, { ack }) => {
    ack();
    await sleep(ms);
    return 'late';
  },
  hang: ({ at = '' }: { at?: string }, { signal }) =>
    new Promise<string>((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error(at)));
    }),
});
