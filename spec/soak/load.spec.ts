import { itLeavesNothingBehind } from './load.ts';

describe('a mixed load of valid and invalid requests for seconds', () => {
  itLeavesNothingBehind('sqlite', { minutes: 0.02, rounds: 2, readers: 50 });
});
