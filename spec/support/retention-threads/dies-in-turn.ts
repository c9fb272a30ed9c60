/** A thread that dies while it holds the write lock. */
import { threadId, workerData } from 'node:worker_threads';
import type { RetentionStart } from '../../../workers/messages.ts';

new Int32Array((workerData as RetentionStart).writeLock)[0] = threadId;
throw new Error('it died in its turn');
