import { addressOf } from './address.ts';
import type { Submission } from './service.ts';
import type { TaskDetail } from './task-detail.ts';
import { visibleText } from './visible-text.ts';

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

/** Writes facts into a description list, which is hidden if there are none. */
export function showFacts(list: HTMLElement, facts: readonly Fact[]): void {
  const version = JSON.stringify(facts);
  // A link that is replaced would lose the focus.
  if (list.dataset.version === version) return;
  list.dataset.version = version;
  list.hidden = facts.length === 0;
  list.replaceChildren(...facts.map(renderFact));
}

function renderFact({ term, text, address, rest = '' }: Fact): HTMLElement {
  const pair = document.createElement('div');
  const [name, value] = [document.createElement('dt'), document.createElement('dd')];
  name.textContent = term;
  const shown = document.createElement(address === undefined ? 'bdi' : 'a');
  shown.textContent = visibleText(text);
  if (shown instanceof HTMLAnchorElement) Object.assign(shown, { href: address }).dataset.link = '';
  value.append(shown, visibleText(rest));
  pair.append(name, value);
  return pair;
}
