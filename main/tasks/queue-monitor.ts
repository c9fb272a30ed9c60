import { deadLetterBounds, type QueueBounds, type TaskStore } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type CumulativeCounts, type Histogram, quantile } from '../../workers/shared/histogram.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { ThreadPool } from './pool/thread-pool.ts';
import type { Queue } from './queue.ts';
import { queueHistory } from './queue-history.ts';

interface QueueMonitorOptions {
  queue: Pick<Queue, 'counts' | 'isPaused' | 'pausedAt' | 'refused'> & { store: Pick<TaskStore, 'saveHistory'> };
  pool: Pick<ThreadPool, 'threads' | 'overlap' | 'busy' | 'durations' | 'threadOf'>;
  dispatcher: { metrics: Pick<Dispatcher['metrics'], 'waits' | 'attempts'> };
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  prefetch: number;
  /** Functions that return a reason why no task can be processed, or undefined. Called once per second. */
  problems: readonly (() => string | undefined)[];
  /** Returns why the changed handlers module cannot be used, if it cannot. */
  moduleProblem?: () => string | undefined;
  /** History that was saved before the start. */
  savedHistory?: string | undefined;
  clock: Clock;
}

export type QueueMonitor = ReturnType<typeof createQueueMonitor>;

/** Reports the state and history of the queue, and checks once per second whether tasks can be processed. */
export function createQueueMonitor(options: QueueMonitorOptions) {
  const { queue, pool, dispatcher, bounds, prefetch, problems, clock } = options;
  const history = queueHistory(clock.now(), options.savedHistory);
  const waiting = recentDurations(dispatcher.metrics.waits);
  const running = recentDurations(pool.durations);
  const { attempts } = dispatcher.metrics;
  const actions = new Map([...attempts].map(([action, each]) => [action, recentAttempts(each)]));
  /** Current reason why no task can be processed. `since` is the Unix second in which processing stalled. */
  let stalled: { reason: string; since: number } | undefined;
  let isCounting = false;
  let cancelTick = () => {};

  const tick = () => {
    const reason = problems.map((problem) => problem()).find((found) => found !== undefined);
    const since = stalled?.since ?? Math.floor(clock.now() / 1000);
    stalled = reason === undefined ? undefined : { reason, since };
    waiting.tick();
    running.tick();
    for (const recent of actions.values()) recent.tick();
    if (Math.floor(clock.now() / 1000) % SAVE_SECONDS === 0) void save();
    start();
  };

  const count = async () => {
    if (isCounting) return;
    isCounting = true;
    // Events that a failed count misses are counted by the next one.
    const counts = await queue.counts().catch(() => undefined);
    if (counts !== undefined) history.advance(counts, clock.now());
    isCounting = false;
  };

  const save = async () => {
    // A failed write is repeated with newer numbers.
    await new Promise<void>((resolve) => resolve(queue.store.saveHistory(history.save()))).catch(() => {});
  };

  /** Counts now, and checks and counts at the start of each second. Events before the call are not part of the history. */
  function start(): void {
    cancelTick = clock.timer(1000 - (clock.now() % 1000), tick);
    void count();
  }

  return {
    start,
    /** Saves the history. */
    stop(): Promise<void> {
      cancelTick();
      return save();
    },
    /** Returns the fields of the response to `GET /queue` that are not counts. */
    status: () => ({
      limits: {
        length: bounds.maxLength,
        bytes: bounds.maxBytes,
        prefetch,
        dead_letters: deadLetterBounds.maxLength,
      },
      threads: { busy: pool.busy, total: pool.threads, overlap: pool.overlap },
      refused: {
        total: queue.refused.count,
        per_second: Number((history.lastMinute('refused') / 60).toPrecision(3)),
        last_at: queue.refused.lastAt === undefined ? null : Math.floor(queue.refused.lastAt / 1000),
      },
      paused: queue.isPaused,
      paused_at_ms: queue.pausedAt,
      stalled: stalled ?? null,
      module_problem: options.moduleProblem?.(),
      latency: {
        window_seconds: SAMPLE_SECONDS * MAX_SAMPLES,
        waiting: waiting.percentiles() ?? null,
        running: running.percentiles() ?? null,
      },
    }),
    history: history.read,
    /** Returns the recent attempts of each action, or of all actions without metrics of their own, as `other`. */
    actions: () => new Map([...actions].map(([action, recent]) => [action, recent.read()])),
    threadOf: (task: string) => pool.threadOf(task),
  };
}

/** Interval at which the history is saved. */
const SAVE_SECONDS = 60;
const SAMPLE_SECONDS = 30;
const MAX_SAMPLES = 10;

/** Returns values of the last five minutes. The first is the oldest. */
function samplesOf<Value>(read: () => Value) {
  const samples: [Value, ...Value[]] = [read()];
  let seconds = 0;
  return {
    samples,
    /** Must be called once per second. Every 30th call reads a value. */
    tick(): void {
      seconds += 1;
      if (seconds % SAMPLE_SECONDS > 0) return;
      samples.push(read());
      if (samples.length > MAX_SAMPLES) samples.shift();
    },
  };
}

type Attempts = Dispatcher['metrics']['attempts'] extends Iterable<[string, infer Each]> ? Each : never;

/** Returns the rate, the share of failures and the percentiles of an action's attempts over the last five minutes. */
function recentAttempts({ outcomes, waits, durations }: Attempts) {
  const ends = samplesOf(() => [...outcomes]);
  const all = [ends, recentDurations(waits), recentDurations(durations)] as const;
  return {
    tick(): void {
      for (const each of all) each.tick();
    },
    read() {
      const [[, waiting, running], before] = [all, new Map(ends.samples[0])];
      const counts = [...outcomes].map(([outcome, count]) => [outcome, count - (before.get(outcome) ?? 0)] as const);
      const sum = (of: typeof counts) => of.reduce((total, [, count]) => total + count, 0);
      const ended = sum(counts);
      const failed = sum(counts.filter(([outcome]) => outcome === 'retried' || outcome === 'failed'));
      return {
        per_second: Number((ended / (SAMPLE_SECONDS * ends.samples.length)).toPrecision(3)),
        failure_share: ended === 0 ? null : Number((failed / ended).toPrecision(3)),
        waiting: waiting.percentiles() ?? null,
        running: running.percentiles() ?? null,
      };
    },
  };
}

/** Returns the percentiles of the durations in a histogram over the last five minutes. */
export function recentDurations(histogram: Histogram) {
  const { samples, tick } = samplesOf<CumulativeCounts>(() => histogram.cumulative());
  return {
    tick,
    /** Returns estimates in seconds with three significant digits, or undefined if no duration was counted. */
    percentiles() {
      const now = histogram.cumulative();
      const [oldest] = samples;
      const upTo = now.upTo.map((count, bucket) => count - (oldest.upTo[bucket] as number));
      const recent = { upTo, count: now.count - oldest.count };
      if (recent.count === 0) return undefined;
      const estimate = (fraction: number) => Number(quantile(histogram.bounds, recent, fraction).toPrecision(3));
      return { p50: estimate(0.5), p95: estimate(0.95), p99: estimate(0.99) };
    },
  };
}
