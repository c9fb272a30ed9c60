import { addressOf } from './address.ts';
import type { Submission } from './service.ts';
import type { TaskDetail } from './task-detail.ts';

/** Term with its value, which may be a link within the page and a text after it. */
export interface Fact {
  term: string;
  text: string;
  address?: string;
  rest?: string;
}

const NORMAL_PRIORITY = 3;

/** Returns the options of a task's submission and, for a callback, the task that it reports. */
export function factsOf(detail: TaskDetail, submission: Submission | undefined): Fact[] {
  const { priority = NORMAL_PRIORITY, limit_key, schedule, callback_url } = detail;
  const facts: Fact[] = [];
  if (priority !== NORMAL_PRIORITY) facts.push({ term: 'Priority', text: String(priority) });
  if (limit_key !== undefined) facts.push({ term: 'Limit key', text: limit_key });
  if (schedule !== undefined) {
    const address = addressOf({ page: 'schedules', q: schedule });
    facts.push({ term: 'Schedule', text: schedule, address });
  }
  if (callback_url !== undefined) facts.push({ term: 'Callback', text: callback_url });
  return submission?.action === 'callback' ? [...facts, ...callbackFacts(detail, submission)] : facts;
}

function callbackFacts({ reason, result }: TaskDetail, { data }: Submission): Fact[] {
  const { url, task } = data ?? {};
  if (typeof url !== 'string' || typeof task !== 'string') return [];
  const address = addressOf({ task });
  const answer = reason ?? answerOf(result);
  const facts = [{ term: 'Callback for', text: task, address, rest: ` to ${url}` }];
  return answer === undefined ? facts : [...facts, { term: 'Last answer', text: answer }];
}

function answerOf(result: string | null | undefined): string | undefined {
  const { status, answer = '' } = JSON.parse(result ?? '{}').output ?? {};
  return status === undefined ? undefined : `${status} ${answer}`.trim();
}
