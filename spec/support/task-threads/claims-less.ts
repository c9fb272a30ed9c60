/** A pool thread that reports one outcome too few, as if another thread had claimed the first task. */
import type { MainToPool, TaskOutcome } from '../../../workers/messages.ts';

export default async (message: MainToPool): Promise<TaskOutcome[]> =>
  'selfTest' in message ? [] : message.tasks.slice(1).map(() => ({ ended: 'returned' }));
