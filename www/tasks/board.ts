import { computed, signal } from '@preact/signals';
import { Model } from './model.ts';
import { type Histories, QueueHistory } from './queue-history.ts';
import { deadLetters, queue } from './service.ts';
import { ServiceLink } from './service-link.ts';
import { type Facts, type Situation, situationOf } from './situation.ts';

const HISTORY_MS = 2_000;
const CAUSES_MS = 5_000;
/** Period of failed tasks whose causes are part of the situation. */
const CAUSES_SECONDS = 900;

const answeredAt = signal(Date.now());
const causes = signal<Facts['causes']>({ causes: [], total: 0 });

/** History of the queue, read about every two seconds while the service answers. */
export const history = signal<Histories>({ seconds: new QueueHistory(1, 900), minutes: new QueueHistory(60, 1_440) });

/** Why the history is not up to date, or an empty string. */
export const historyError = signal('');

export const model = new Model();

export const link = new ServiceLink({
  onStatus(status) {
    answeredAt.value = Date.now();
    model.setQueue(status, linkState.peek().isStreaming);
    readHistory();
    if (situation.peek().problems.some(({ kind }) => kind === 'failing')) readCauses();
  },
  onEvents: model.apply,
  onGap: model.reload,
});

/** State of the connection to the service. */
export const linkState = link.state;

/** Newest answer of `GET /queue`. */
export const status = model.queue;

export const situation = computed((): Situation => {
  const facts = { status: status.value, history: history.value, causes: causes.value, answeredAt: answeredAt.value };
  return situationOf({ ...facts, link: linkState.value }, location.origin);
});

/**
 * Returns a function that calls `request`, unless the last call began less than `intervalMs` ago or has not ended. It
 * is called with each answer of `GET /queue`, so requests pause while the page is hidden or the service does not answer.
 *
 * @param pauseRatio least ratio of the pause between two calls to the duration of a call
 */
export function paced(intervalMs: number, request: () => Promise<void>, pauseRatio = 0): () => void {
  let isOpen = true;
  let notBefore = Number.NEGATIVE_INFINITY;
  return () => {
    // Answers come about once per second, a little earlier or later.
    if (!isOpen || performance.now() < notBefore) return;
    isOpen = false;
    const startedAt = performance.now();
    void request().finally(() => {
      isOpen = true;
      notBefore = Math.max(
        startedAt + intervalMs - 500,
        performance.now() + pauseRatio * (performance.now() - startedAt),
      );
    });
  };
}

const readHistory = paced(HISTORY_MS, async () => {
  const { seconds, minutes } = history.peek();
  try {
    await seconds.extend(queue.history);
    const isMinuteOver = Math.floor((seconds.end ?? 0) / 60) * 60 !== minutes.end;
    if (isMinuteOver) await minutes.extend(queue.history);
    history.value = { seconds, minutes };
    historyError.value = '';
  } catch (error) {
    historyError.value = `Not up to date: ${(error as Error).message}`;
  }
});

const readCauses = paced(CAUSES_MS, async () => {
  const since = (history.peek().seconds.end ?? CAUSES_SECONDS) - CAUSES_SECONDS;
  // Without an answer, the situation names the number of failures only.
  causes.value = await deadLetters.reasons({ since }).catch(() => ({ causes: [], total: 0 }));
});
