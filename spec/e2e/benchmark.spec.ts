import { expect } from 'chai';
import { bench, describeBenchmark, figures } from './benchmark.ts';

describeBenchmark('the benchmark', ['tasks']);

describe('the arguments of the benchmark', () => {
  it('accept known figures only', async () => {
    const { code, stderr } = await bench(['nonsense', '--smoke']).catch((error) => error);
    expect(code).to.equal(1);
    expect(stderr).to.equal(`there is no figure nonsense, only ${figures.join(', ')}\n`);
  });
});
