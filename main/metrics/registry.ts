import { type Metric, Registry } from 'prom-client';
import type { Histogram } from './histogram.ts';

type Labels = Readonly<Record<string, string | number>>;

export type Labelled<Value> = readonly [labels: Labels, value: Value];

interface Line {
  /** Name of the line if it differs from the metric's name, for example `…_bucket` for a histogram. */
  metricName?: string;
  labels: Labels;
  value: number;
}

/** Metrics whose values are read at each scrape, because updating prom-client's counters costs more than some events do. */
export class MetricsRegistry {
  readonly registry = new Registry();

  gauge(name: string, help: string, read: () => number | Iterable<Labelled<number>>): void {
    this.#add('gauge', name, help, () => scalars(read()));
  }

  counter(name: string, help: string, read: () => number | Iterable<Labelled<number>>): void {
    this.#add('counter', name, help, () => scalars(read()));
  }

  /** @param read returns the histograms of each set of labels. Those of one set are added up, and must have the same bounds */
  histogram(name: string, help: string, read: () => Iterable<Labelled<readonly Histogram[]>>): void {
    this.#add('histogram', name, help, () =>
      Array.from(read()).flatMap(([labels, distributions]) => buckets(name, labels, distributions)),
    );
  }

  text(): Promise<string> {
    return this.registry.metrics();
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  #add(type: 'gauge' | 'counter' | 'histogram', name: string, help: string, lines: () => Line[]): void {
    const description = { name, help, type, aggregator: 'sum' };
    const metric = { ...description, get: async () => ({ ...description, values: lines() }) };
    this.registry.registerMetric(metric as unknown as Metric);
  }
}

/** Yields each value of `entries` with a label `name`, whose value is the entry's key. */
export function* labelled(name: string, entries: Iterable<readonly [string, number]>): Generator<Labelled<number>> {
  for (const [label, value] of entries) yield [{ [name]: label }, value];
}

function scalars(read: number | Iterable<Labelled<number>>): Line[] {
  if (typeof read === 'number') return [{ labels: {}, value: read }];
  return Array.from(read, ([labels, value]) => ({ labels, value }));
}

function buckets(name: string, labels: Labels, distributions: readonly Histogram[]): Line[] {
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
