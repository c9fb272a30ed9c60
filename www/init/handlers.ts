import { defineHandlers, PermanentError, type TaskContext } from 'ticker-and-tasks';

// Each name is an action: POST /tasks {"action": "greet", "data": {"name": "Ada"}} runs its handler in a worker thread.
export default defineHandlers({
  // The return value, or what its promise resolves to, is stored as JSON.
  greet: ({ name = 'world' }: { name?: string }) => `Hello, ${name}!`,

  count: {
    // JSON Schema. A submission with other data gets 400.
    schema: {
      type: 'object',
      required: ['words'],
      properties: { words: { type: 'array', items: { type: 'string' } } },
    },
    // Time limit of an attempt, and maximum number of attempts. Other settings are limits and backoff, for example.
    timeoutMs: 10_000,
    maxAttempts: 3,
    async handler({ words }: { words: string[] }, { progress, signal }: TaskContext) {
      // The task fails at once. After any other error, it is retried.
      if (words.length === 0) throw new PermanentError('there are no words');
      const counts: Record<string, number> = {};
      for (const [index, word] of words.entries()) {
        // Aborted at the time limit, and when the task is cancelled. Pass the signal to fetch() and the like.
        signal.throwIfAborted();
        counts[word] = (counts[word] ?? 0) + 1;
        progress((index + 1) / words.length, word);
      }
      return counts;
    },
  },
});
