/** A maintenance thread that dies while the main thread holds its writes. */
import { parentPort } from 'node:worker_threads';
import type { MaintenanceToMain } from '../../../workers/maintenance/messages.ts';

parentPort?.once('message', () => {
  throw new Error('it died while writes were held');
});
parentPort?.postMessage({ topic: 'hold' } satisfies MaintenanceToMain);
