import { expect } from 'chai';
import { bench, describeBenchmark } from './benchmark.ts';

describeBenchmark('the benchmark', ['tasks']);

describe('the arguments of the benchmark', () => {
  it('are the names of figures', async () => {
    const { code, stderr } = await bench('nonsense', '--smoke');
    expect(code).to.equal(1);
    expect(stderr).to.match(/^there is no figure nonsense, only stream, .*tasks.*\n$/);
  });
});
