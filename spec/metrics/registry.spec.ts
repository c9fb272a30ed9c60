import { expect } from 'chai';
import { Histogram } from '../../main/metrics/histogram.ts';
import { labelled, MetricsRegistry } from '../../main/metrics/registry.ts';

describe('the metrics', () => {
  it('are read at the moment when they are asked for', async () => {
    const metrics = new MetricsRegistry();
    let value = 1;
    metrics.gauge('size', 'How many.', () => value);
    value = 2;
    expect(await metrics.text()).to.equal('# HELP size How many.\n# TYPE size gauge\nsize 2\n');
  });

  it('have a line for each label', async () => {
    const metrics = new MetricsRegistry();
    const counts = new Map([['a', 1]]);
    metrics.counter('things_total', 'Things.', () => labelled('kind', counts));
    counts.set('b "quoted"\n', 3);
    expect((await metrics.text()).split('\n').slice(1, -1)).to.deep.equal([
      '# TYPE things_total counter',
      'things_total{kind="a"} 1',
      'things_total{kind="b \\"quoted\\"\\n"} 3',
    ]);
  });

  it('add distributions up to one histogram', async () => {
    const metrics = new MetricsRegistry();
    const [one, other] = [new Histogram([1, 2]), new Histogram([1, 2])];
    metrics.histogram('length_seconds', 'Length.', () => [[{ of: 'both' }, [one, other]]]);
    for (const seconds of [0.5, 1.5]) one.observe(seconds);
    for (const seconds of [2, 5]) other.observe(seconds);
    expect((await metrics.text()).split('\n').slice(1, -1)).to.deep.equal([
      '# TYPE length_seconds histogram',
      'length_seconds_bucket{of="both",le="1"} 1',
      'length_seconds_bucket{of="both",le="2"} 3',
      'length_seconds_bucket{of="both",le="+Inf"} 4',
      'length_seconds_sum{of="both"} 9',
      'length_seconds_count{of="both"} 4',
    ]);
  });

  it('refuse a second one of the same name', () => {
    const metrics = new MetricsRegistry();
    metrics.gauge('size', 'How many.', () => 1);
    expect(() => metrics.gauge('size', 'How many.', () => 1)).to.throw(/already been registered/);
  });
});
