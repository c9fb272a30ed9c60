import { computed, type ReadonlySignal, signal } from '@preact/signals';
import { healthOf, RateMeter } from './health.ts';
import { Model } from './model.ts';
import { type LinkState, ServiceLink } from './service-link.ts';

const state = signal<LinkState>({ kind: 'connecting', isStreaming: false });
const rate = signal<number>();
const meter = new RateMeter();

export const model = new Model();

export const link = new ServiceLink({
  onState: (changed) => {
    state.value = changed;
  },
  onStatus(status) {
    rate.value = meter.add(status.completed, performance.now());
    model.setQueue(status);
  },
  onEvents: model.apply,
  onGap: model.reload,
});

/** State of the connection to the service. */
export const linkState: ReadonlySignal<LinkState> = state;

/** Figures and problems of the queue, or undefined before the first response. */
export const health = computed(() => model.queue.value && healthOf(model.queue.value, rate.value));
