import { type Metric, Registry } from 'prom-client';
import type { Distribution } from '../figures/distribution.ts';

type Labels = Readonly<Record<string, string | number>>;

/** A value with the labels that tell it from the others of its metric. */
export type Labelled<Value> = readonly [labels: Labels, value: Value];

interface Line {
  /** The metric's own name where absent. */
  metricName?: string;
  labels: Labels;
  value: number;
}

/**
 * The metrics of the process. None is told anything while work is done: each is read when it is asked for, from what the
 * services count. (The library's own have to be told of each event, which costs more than some of the events themselves.)
 */
export class Metrics {
  readonly registry = new Registry();

  gauge(name: string, help: string, read: () => number | Iterable<Labelled<number>>): void {
    this.#add('gauge', name, help, () => scalars(read()));
  }

  /** @param name ends in `_total` */
  counter(name: string, help: string, read: () => number | Iterable<Labelled<number>>): void {
    this.#add('counter', name, help, () => scalars(read()));
  }

  /**
   * @param name ends in `_seconds`
   * @param read gives the distributions that are added up to one, all of the same bounds
   */
  histogram(name: string, help: string, read: () => Iterable<Labelled<readonly Distribution[]>>): void {
    this.#add('histogram', name, help, () =>
      Array.from(read()).flatMap(([labels, distributions]) => buckets(name, labels, distributions)),
    );
  }

  /** The text that Prometheus reads. */
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

/** Values that differ in one label, by its name. */
export function* labelled(name: string, entries: Iterable<readonly [string, number]>): Generator<Labelled<number>> {
  for (const [label, value] of entries) yield [{ [name]: label }, value];
}

function scalars(read: number | Iterable<Labelled<number>>): Line[] {
  if (typeof read === 'number') return [{ labels: {}, value: read }];
  return Array.from(read, ([labels, value]) => ({ labels, value }));
}

/** The lines of one histogram: how many up to each bound, in all, and the sum. */
function buckets(name: string, labels: Labels, distributions: readonly Distribution[]): Line[] {
  const read = distributions.map((distribution) => distribution.cumulative());
  const add = (of: (each: (typeof read)[number]) => number) => read.reduce((sum, each) => sum + of(each), 0);
  const count = add((each) => each.count);
  const bounds = distributions[0]?.bounds ?? [];
  return [
    ...bounds.map((bound, range) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bound },
      value: add((each) => each.upTo[range] as number),
    })),
    { metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: count },
    { metricName: `${name}_sum`, labels, value: add((each) => each.sum) },
    { metricName: `${name}_count`, labels, value: count },
  ];
}
