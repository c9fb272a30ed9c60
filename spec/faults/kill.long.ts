import { itSurvivesKills } from './kill-rounds.ts';

describe('kill -9 with the durable queue, again and again', () => {
  itSurvivesKills(Number(process.env.FAULT_ROUNDS ?? 300));
});
