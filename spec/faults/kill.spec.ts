import { itSurvivesKills } from './kill-rounds.ts';

describe('kill -9 with the durable queue', () => {
  itSurvivesKills(6);
});
