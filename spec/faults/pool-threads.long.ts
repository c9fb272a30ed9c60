import { itSurvivesThreadDeaths } from './thread-deaths.ts';

const groups = [
  { pool: 1, ticker: 0 },
  { pool: 1, ticker: 0 },
  { pool: 0, ticker: 1 },
  { pool: 2, ticker: 0 },
  { pool: 1, ticker: 1 },
  { pool: 2, ticker: 1 },
  { pool: 1, ticker: 0 },
  { pool: 2, ticker: 0 },
];

describe('the sudden death, again and again', () => {
  for (const driver of ['memory', 'sqlite'] as const) itSurvivesThreadDeaths(driver, groups);
});
