/** Worker thread that parses large bodies of `POST /tasks`. Each message has one body, and gets one reply. */
import { parentPort } from 'node:worker_threads';
import { parseSubmission, READY, type SubmittedBody } from './submission.ts';

parentPort?.postMessage(READY);
parentPort?.on('message', (body: SubmittedBody) => parentPort?.postMessage(parseSubmission(body)));
