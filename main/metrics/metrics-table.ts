import type { Metric, Registry } from 'prom-client';
import type { Histogram } from '../../workers/shared/histogram.ts';

type Labels = Readonly<Record<string, string | number>>;

export type Labelled<Value = number | readonly Histogram[]> = readonly [labels: Labels, value: Value];

type Values = number | Iterable<Labelled>;

type Metrics = Readonly<Record<string, readonly [help: string, read: () => Values]>>;

/** Histograms with the same labels are added up, so they must have the same bucket bounds. */
export type MetricsTable = Partial<Record<'gauge' | 'counter' | 'histogram', Metrics>>;

interface Sample {
  /** Name of the sample if it differs from the metric's name, for example `…_bucket` in a histogram. */
  metricName?: string;
  labels: Labels;
  value: number;
}

/** Registers metrics whose values are read at each scrape. @throws {Error} if a metric's name is already registered */
export function registerMetrics(registry: Registry, table: MetricsTable): void {
  for (const [type, metrics] of Object.entries(table)) {
    for (const [name, [help, read]] of Object.entries(metrics)) {
      const description = { name, help, type, aggregator: 'sum' };
      const metric = { ...description, get: async () => ({ ...description, values: samples(name, read()) }) };
      registry.registerMetric(metric as unknown as Metric);
    }
  }
}

/** Adds a label to each entry's value: `name` is the label's name, and the entry's key is the label's value. */
export function* labelled(name: string, entries: Iterable<readonly [string, number]>): Generator<Labelled<number>> {
  for (const [label, value] of entries) yield [{ [name]: label }, value];
}

function samples(name: string, values: Values): Sample[] {
  if (typeof values === 'number') return [{ labels: {}, value: values }];
  return Array.from(values).flatMap(([labels, value]) =>
    typeof value === 'number' ? { labels, value } : buckets(name, labels, value),
  );
}

function buckets(name: string, labels: Labels, distributions: readonly Histogram[]): Sample[] {
  const read = distributions.map((distribution) => distribution.cumulative());
  const total = (of: (each: (typeof read)[number]) => number) => read.reduce((sum, each) => sum + of(each), 0);
  const count = total((each) => each.count);
  const bounds = distributions[0]?.bounds ?? [];
  return [
    ...bounds.map((bound, bucket) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound },
      value: total((each) => each.upTo[bucket] as number),
    })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: count },
    { metricName: `${name}_sum`, labels, value: total((each) => each.sum) },
    { metricName: `${name}_count`, labels, value: count },
  ];
}

/** Maximum number of values of a label. Further ones are counted as {@link OTHERS}. */
const MAX_NAMES = 100;
const OTHERS = 'other';

/** Counts events by name, which becomes the metric's label value. */
export class CounterByLabel {
  readonly #counts = new Map<string, number>();

  constructor(names: readonly string[] = []) {
    for (const name of names) this.#counts.set(name, 0);
  }

  count(name: string): void {
    const key = this.#counts.has(name) || this.#counts.size < MAX_NAMES ? name : OTHERS;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
  }

  [Symbol.iterator](): IterableIterator<[name: string, count: number]> {
    return this.#counts.entries();
  }
}

/** Values by action. All unknown actions share one, because clients choose the names and each is a label of metrics. */
export class ByAction<Value> implements Iterable<[action: string, Value]> {
  readonly #values = new Map<string, Value>();
  readonly #others: Value;
  readonly #create: () => Value;

  constructor(actions: Iterable<string>, create: () => Value) {
    this.#create = create;
    this.#others = create();
    this.add(actions);
  }

  /** Adds actions of a changed module. The values of its former actions stay, because metrics must not be reset. */
  add(actions: Iterable<string>): void {
    for (const action of actions) {
      const isNew = action !== OTHERS && !this.#values.has(action);
      if (isNew && this.#values.size < MAX_NAMES) this.#values.set(action, this.#create());
    }
  }

  of(action = OTHERS): Value {
    return this.#values.get(action) ?? this.#others;
  }

  *[Symbol.iterator](): Generator<[action: string, Value]> {
    yield* this.#values;
    yield [OTHERS, this.#others];
  }
}
