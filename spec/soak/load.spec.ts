import { itLeavesNothingBehind } from './load.ts';

describe('a load of everything, valid and invalid, for seconds', () => {
  itLeavesNothingBehind('sqlite', { minutes: 0.02, rounds: 2, readers: 50 });
});
