import { computed, type ReadonlySignal, signal } from '@preact/signals';
import type { QueueStatus } from '../client/queue-api.ts';
import { Model } from './model.ts';
import { type Histories, QueueHistory } from './queue-history.ts';
import { deadLetters, queue } from './service.ts';
import { type LinkState, ServiceLink } from './service-link.ts';
import { type Situation, situationOf } from './situation.ts';

const HISTORY_MS = 2_000;
const CAUSES_MS = 5_000;
/** Period of failed tasks whose causes are part of the situation. */
const CAUSES_SECONDS = 900;

const answeredAt = signal(Date.now());
const read = signal<Histories>({ seconds: new QueueHistory(1, 900), minutes: new QueueHistory(60, 1_440) });
const readError = signal('');
const causes = signal<Parameters<typeof situationOf>[0]['causes']>({ causes: [], total: 0 });

export const model = new Model();

export const link = new ServiceLink({
  onStatus(status) {
    answeredAt.value = Date.now();
    model.setQueue(status);
    readHistory();
    if (situation.peek().problems.some(({ kind }) => kind === 'failing')) readCauses();
  },
  onEvents: model.apply,
  onGap: model.reload,
});

/** State of the connection to the service. */
export const linkState: ReadonlySignal<LinkState> = link.state;

/** Newest answer of `GET /queue`. */
export const status: ReadonlySignal<QueueStatus | undefined> = model.queue;

/** History of the queue, read about every two seconds while the service answers. */
export const history: ReadonlySignal<Histories> = read;

/** Why the history is not up to date, or an empty string. */
export const historyError: ReadonlySignal<string> = readError;

export const situation: ReadonlySignal<Situation> = computed(() =>
  situationOf(
    {
      status: status.value,
      history: history.value,
      causes: causes.value,
      link: { kind: linkState.value.kind, error: linkState.value.error },
      answeredAt: answeredAt.value,
    },
    location.origin,
  ),
);

/**
 * Returns a function that calls `request`, unless the last call began less than `intervalMs` ago or has not ended. With
 * each answer of `GET /queue` comes a call, so requests pause while the page is hidden or the service does not answer.
 */
export function paced(intervalMs: number, request: () => Promise<void>): () => void {
  let isOpen = true;
  let notBefore = Number.NEGATIVE_INFINITY;
  return () => {
    // Answers come about once per second, a little earlier or later.
    if (!isOpen || performance.now() < notBefore) return;
    isOpen = false;
    notBefore = performance.now() + intervalMs - 500;
    void request().finally(() => {
      isOpen = true;
    });
  };
}

const readHistory = paced(HISTORY_MS, async () => {
  const { seconds, minutes } = read.peek();
  try {
    await seconds.extend(queue.history);
    const isMinuteOver = Math.floor((seconds.end ?? 0) / 60) * 60 !== minutes.end;
    if (isMinuteOver) await minutes.extend(queue.history);
    read.value = { seconds, minutes };
    readError.value = '';
  } catch (error) {
    readError.value = `Not up to date: ${(error as Error).message}`;
  }
});

const readCauses = paced(CAUSES_MS, async () => {
  const since = (read.peek().seconds.end ?? CAUSES_SECONDS) - CAUSES_SECONDS;
  // Without an answer, the situation names the number of failures only.
  causes.value = await deadLetters.reasons({ since }).catch(() => ({ causes: [], total: 0 }));
});
