import { deadLetterBounds, HISTORIES, type QueueBounds, type TaskStore } from '../../db/task-store.ts';
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
  savedHistory?: string | undefined;
  clock: Clock;
}

export type QueueMonitor = ReturnType<typeof createQueueMonitor>;

/** Reports the state and history of the queue, and checks once per second whether tasks can be processed. */
export function createQueueMonitor(options: QueueMonitorOptions) {
  const { queue, pool, dispatcher, bounds, prefetch, problems, clock } = options;
  const history = queueHistory(clock.now(), options.savedHistory);
  const waiting = recentDurations(dispatcher.metrics.waits, clock);
  const running = recentDurations(pool.durations, clock);
  const attempts = ACTIVITY_SECONDS.flatMap((seconds) =>
    [...dispatcher.metrics.attempts].map(([action, each]) => ({
      seconds,
      action,
      ...recentAttempts(each, seconds, clock),
    })),
  );
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
    for (const recent of attempts) recent.tick();
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
    await new Promise<void>((resolve) => resolve(queue.store.saveHistory(HISTORIES.queue, history.save()))).catch(
      () => {},
    );
  };

  /** Counts now, and checks and counts at the start of each second. Events before the call are not part of the history. */
  function start(): void {
    cancelTick = clock.timer(1000 - (clock.now() % 1000), tick);
    void count();
  }

  return {
    start,
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
        window_seconds: DEFAULT_SECONDS,
        waiting: waiting.percentiles() ?? null,
        running: running.percentiles() ?? null,
      },
    }),
    history: history.read,
    /** Returns the attempts of each action in the last `seconds`. `other` are all actions without metrics of their own. */
    actions: (seconds: ActivitySeconds) =>
      new Map(attempts.filter((each) => each.seconds === seconds).map(({ action, read }) => [action, read()])),
    /** Returns the number of seconds that the result of `actions` covers, which is lower until `seconds` after the start. */
    coveredSeconds: (seconds: ActivitySeconds) => attempts.find((each) => each.seconds === seconds)?.covered() ?? 0,
    threadOf: (task: string) => pool.threadOf(task),
  };
}

const SAVE_SECONDS = 60;
/** Periods in seconds that `GET /queue/activity` accepts. */
export const ACTIVITY_SECONDS = [300, 900, 3_600, 86_400] as const;
export type ActivitySeconds = (typeof ACTIVITY_SECONDS)[number];
const [DEFAULT_SECONDS] = ACTIVITY_SECONDS;
/** Samples of a period. With 101 actions, those of all periods take at most 4 MB. */
const MAX_SAMPLES = 12;
/** Minimum divisor of a rate in seconds, so that a few attempts after the start do not appear as a high rate. */
const MIN_SECONDS = 30;

/** Returns values of the last `seconds`, up to a twelfth less. The first is the oldest. */
function samplesOf<Value>(read: () => Value, seconds: number, clock: Clock) {
  const interval = seconds / MAX_SAMPLES;
  const sample = () => ({ at: clock.now(), value: read() });
  let oldest = sample();
  const newer: (typeof oldest)[] = [];
  const age = ({ at }: { at: number }) => Math.max(0, Math.round((clock.now() - at) / 1000));
  return {
    oldest: () => oldest.value,
    /** Returns the age of the oldest value in seconds. */
    age: () => age(oldest),
    /** Must be called once per second. A call may be missing, because the age of a value is that of its time. */
    tick(): void {
      if (age(newer.at(-1) ?? oldest) >= interval) newer.push(sample());
      while (age(oldest) >= seconds && newer.length > 0) oldest = newer.shift() ?? oldest;
    },
  };
}

type Attempts = Dispatcher['metrics']['attempts'] extends Iterable<[string, infer Each]> ? Each : never;

/** Returns the rate, the share of failures and the percentiles of an action's attempts over the last `seconds`. */
function recentAttempts({ outcomes, waits, durations }: Attempts, seconds: number, clock: Clock) {
  const ends = samplesOf(() => [...outcomes], seconds, clock);
  const all = [ends, recentDurations(waits, clock, seconds), recentDurations(durations, clock, seconds)] as const;
  return {
    covered: ends.age,
    tick(): void {
      for (const each of all) each.tick();
    },
    read() {
      const [[, waiting, running], before] = [all, new Map(ends.oldest())];
      const counts = [...outcomes].map(([outcome, count]) => [outcome, count - (before.get(outcome) ?? 0)] as const);
      const sum = (of: typeof counts) => of.reduce((total, [, count]) => total + count, 0);
      const ended = sum(counts);
      const failed = sum(counts.filter(([outcome]) => outcome === 'retried' || outcome === 'failed'));
      return {
        per_second: Number((ended / Math.max(MIN_SECONDS, ends.age())).toPrecision(3)),
        failure_share: ended === 0 ? null : Number((failed / ended).toPrecision(3)),
        waiting: waiting.percentiles() ?? null,
        running: running.percentiles() ?? null,
      };
    },
  };
}

/** Returns the percentiles of the durations in a histogram over the last `seconds`. */
function recentDurations(histogram: Histogram, clock: Clock, seconds: number = DEFAULT_SECONDS) {
  const { oldest: oldestOf, tick } = samplesOf<CumulativeCounts>(() => histogram.cumulative(), seconds, clock);
  return {
    tick,
    /** Returns estimates in seconds with three significant digits, or undefined if no duration was counted. */
    percentiles() {
      const now = histogram.cumulative();
      const oldest = oldestOf();
      const upTo = now.upTo.map((count, bucket) => count - (oldest.upTo[bucket] as number));
      const recent = { upTo, count: now.count - oldest.count };
      if (recent.count === 0) return undefined;
      const estimate = (fraction: number) => Number(quantile(histogram.bounds, recent, fraction).toPrecision(3));
      return { p50: estimate(0.5), p95: estimate(0.95), p99: estimate(0.99) };
    },
  };
}
