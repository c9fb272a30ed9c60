import { describeBenchmark } from './benchmark.ts';

// Without the figures that `npm test` measures, or that repeat a figure with other numbers.
const figures = ['stream', 'upgrades', 'submissions', 'durable', 'flood', 'counting', 'listing', 'storm', 'nodes'];

describeBenchmark('the whole benchmark', figures);
