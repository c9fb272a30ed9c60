import { expect } from 'chai';
import { Registry } from 'prom-client';
import { CounterByLabel, registerMetrics } from '../../main/metrics/metrics-table.ts';
import { Histogram } from '../../workers/shared/histogram.ts';

describe('the metrics', () => {
  it('add several histograms up to one', async () => {
    const registry = new Registry();
    const [one, other] = [new Histogram([1, 2]), new Histogram([1, 2])];
    registerMetrics(registry, { histogram: { length_seconds: ['Length.', () => [[{ of: 'both' }, [one, other]]]] } });
    for (const seconds of [0.5, 1.5]) one.observe(seconds);
    for (const seconds of [2, 5]) other.observe(seconds);
    expect((await registry.metrics()).split('\n').slice(1, -1)).to.deep.equal([
      '# TYPE length_seconds histogram',
      'length_seconds_bucket{of="both",le="1"} 1',
      'length_seconds_bucket{of="both",le="2"} 3',
      'length_seconds_bucket{of="both",le="+Inf"} 4',
      'length_seconds_sum{of="both"} 9',
      'length_seconds_count{of="both"} 4',
    ]);
  });
});

describe('a counter by label', () => {
  it('starts the given labels at zero, and counts all labels after the first 100 together', () => {
    const tally = new CounterByLabel(['given', '7']);
    for (let name = 0; name < 1000; name++) tally.count(String(name));
    const counts = new Map(tally);
    expect([counts.size, counts.get('given'), counts.get('7'), counts.get('other')]).to.deep.equal([101, 0, 1, 901]);
  });
});
