/** Worker thread that parses and checks bodies of `POST /tasks`. Replies once to each body. */
import { parentPort, workerData } from 'node:worker_threads';
import type { SubmissionRules } from '../tasks/messages.ts';
import { parseBatch, type SubmittedBatch } from './parse-batch.ts';
import {
  type CheckStarted,
  parseSubmission,
  READY,
  type SubmissionCheck,
  type SubmittedBody,
} from './parse-submission.ts';

const rules = workerData as SubmissionRules | undefined;
const check = rules && (await announcedCheck(rules));

parentPort?.postMessage(READY);
parentPort?.on('message', (body: SubmittedBody | SubmittedBatch) => {
  parentPort?.postMessage('id' in body ? parseSubmission(body, check) : parseBatch(body, check));
});

/** Sends {@link CheckStarted} to the main thread before each check that needs a time limit. */
async function announcedCheck(rules: SubmissionRules): Promise<SubmissionCheck> {
  const { submissionCheck, timeLimitedActions } = await import('./data-schemas.ts');
  const checkData = submissionCheck(rules);
  const limited = timeLimitedActions(rules);
  return (action, data) => {
    if (limited.has(action)) parentPort?.postMessage({ checking: action } satisfies CheckStarted);
    return checkData(action, data);
  };
}
