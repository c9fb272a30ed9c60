/** Worker thread that parses and checks bodies of `POST /tasks`. Replies once to each body. */
import { parentPort, workerData } from 'node:worker_threads';
import type { SubmissionRules } from '../tasks/messages.ts';
import {
  type CheckStarted,
  parseBatch,
  parseSubmission,
  READY,
  type SubmittedBatch,
  type SubmittedBody,
} from './parse-submission.ts';

const rules = workerData as SubmissionRules | undefined;
// Imported lazily, because the schema compiler takes longer to load than the rest of the thread's code.
const { submissionCheck } = rules === undefined ? {} : await import('./data-schemas.ts');
const check = rules && submissionCheck?.(rules, announce);

parentPort?.postMessage(READY);
parentPort?.on('message', (body: SubmittedBody | SubmittedBatch) => {
  parentPort?.postMessage('id' in body ? parseSubmission(body, check) : parseBatch(body, check));
});

/** Tells the main thread of a check that needs a time limit. */
function announce(action: string): undefined {
  parentPort?.postMessage({ checking: action } satisfies CheckStarted);
}
