import { describeBenchmark, figures } from './benchmark.ts';

describeBenchmark(
  'the whole benchmark',
  figures.filter((figure) => figure !== 'tasks'),
);
