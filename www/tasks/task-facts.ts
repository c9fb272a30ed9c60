import { addressOf } from './address.ts';
import { formatSpan } from './amounts.ts';
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

/** Returns how often and how long a task ran, the options of its submission and, for a callback, the task that it reports. */
export function factsOf(detail: TaskDetail, submission: Submission | undefined): Fact[] {
  const { id, priority = NORMAL_PRIORITY, limit_key, schedule, callback_url, attempts, waited_ms, ran_ms } = detail;
  const facts: Fact[] = [];
  if (ran_ms !== undefined) {
    const waited = waited_ms == null ? '' : `waited ${formatSpan(waited_ms)}, `;
    const count = attempts === undefined || attempts === 1 ? '' : ` in ${attempts} attempts`;
    facts.push({ term: 'Duration', text: `${waited}ran ${formatSpan(ran_ms)}${count}` });
  }
  if (priority !== NORMAL_PRIORITY) facts.push({ term: 'Priority', text: String(priority) });
  if (limit_key !== undefined) {
    const address = addressOf({ page: 'limits', ...(submission && { q: submission.action }) });
    facts.push({ term: 'Limit key', text: limit_key, address });
  }
  if (schedule !== undefined) {
    const address = addressOf({ page: 'schedules', q: schedule });
    facts.push({ term: 'Schedule', text: schedule, address });
  }
  if (callback_url !== undefined) {
    const address = addressOf({ state: 'completed', action: 'callback', q: id });
    facts.push({ term: 'Callback', text: callback_url, address });
  }
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
