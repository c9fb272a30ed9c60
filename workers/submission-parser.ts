/** The thread that parses large submissions, each in one message and with one answer. */
import { parentPort } from 'node:worker_threads';
import { parseSubmission, READY, type SubmittedBody } from './submission.ts';

parentPort?.postMessage(READY);
parentPort?.on('message', (body: SubmittedBody) => parentPort?.postMessage(parseSubmission(body)));
