/** A pool thread that tells of one task less than it was given, as one does of which another thread has claimed the first. */
import type { MainToPool, TaskOutcome } from '../../../workers/messages.ts';

export default async (message: MainToPool): Promise<TaskOutcome[]> =>
  'selfTest' in message ? [] : message.tasks.slice(1).map(() => ({ ended: 'returned' }));
