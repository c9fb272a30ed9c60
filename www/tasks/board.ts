import { computed, signal } from '@preact/signals';
import { Model } from './model.ts';
import { type Histories, QueueHistory } from './queue-history.ts';
import { client, repeated } from './service.ts';
import { ServiceLink } from './service-link.ts';
import { type Facts, type Situation, situationOf } from './situation.ts';

const HISTORY_MS = 2_000;
const CAUSES_MS = 5_000;
/** Period of failed tasks whose causes are part of the situation. */
const CAUSES_SECONDS = 900;

const answeredAt = signal(Date.now());
const seconds = new QueueHistory(1, 900);
const minutes = new QueueHistory(60, 1_440);

const histories = repeated(
  HISTORY_MS,
  async (): Promise<Histories> => {
    await seconds.extend(client.queue.history);
    const isMinuteOver = Math.floor(seconds.end / 60) * 60 !== minutes.end;
    if (isMinuteOver) await minutes.extend(client.queue.history);
    return { seconds, minutes };
  },
  { seconds, minutes },
);

/** History of the queue, and why it is not up to date, or an empty string. */
export const { answer: history, problem: historyProblem } = histories;

const NO_CAUSES: Facts['causes'] = { causes: [], total: 0 };
// Without an answer, the situation names the number of failures only.
const causes = repeated<Facts['causes']>(
  CAUSES_MS,
  () => client.deadLetters.reasons({ since: Math.max(0, seconds.end - CAUSES_SECONDS) }).catch(() => NO_CAUSES),
  NO_CAUSES,
);

export const model = new Model();

export const link = new ServiceLink({
  onStatus(status) {
    answeredAt.value = Date.now();
    model.setQueue(status, linkState.peek().isStreaming);
    histories.poll();
    if (situation.peek().problems.some(({ kind }) => kind === 'failing')) causes.poll();
  },
  onEvents: model.apply,
  onGap: model.reload,
});

export const linkState = link.state;

/** Newest answer of `GET /queue`. */
export const status = model.queue;

export const situation = computed((): Situation => {
  const facts = { status: status.value, history: history.value, causes: causes.answer.value, link: linkState.value };
  return situationOf({ ...facts, answeredAt: answeredAt.value }, location.origin);
});
