import { describeBenchmark, figures } from './benchmark.ts';

/** Figures that `npm test` measures, or that repeat a figure with other numbers. */
const OMITTED = ['tasks', 'crowds', 'frames', 'connections'];

describeBenchmark(
  'the whole benchmark',
  figures.filter((figure) => !OMITTED.includes(figure)),
);
