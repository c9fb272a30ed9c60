/** A submission thread that exits on a body of zero bytes, and responds to any other body with its length. */
import { parentPort } from 'node:worker_threads';
import { READY, type SubmittedBody } from '../../../workers/submissions/parse-submission.ts';

parentPort?.postMessage(READY);
parentPort?.on('message', ({ bytes }: SubmittedBody) => {
  if (bytes.every((byte) => byte === 0)) throw new Error('died of zero');
  parentPort?.postMessage({ message: { body: String(bytes.length) }, fingerprint: undefined });
});
