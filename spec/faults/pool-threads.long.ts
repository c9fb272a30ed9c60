import { expect } from 'chai';
import { inspect, inspectable } from '../support/inspector.ts';
import { startServices } from '../support/program.ts';
import { itSurvivesThreadDeaths } from './thread-deaths.ts';
import { completed, submit } from './uppercase-tasks.ts';

const POOL = /piscina/;

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
  it('of both pool threads loses no task', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(POOL, 2);
    const before = submit(services, 8);
    const killing = inspector.kill(POOL);
    expect(killing.count).to.equal(2);
    const ids = [...(await before), ...(await submit(services, 8))];
    await completed(services, ids);
    await killing.dead;
    await inspector.alive(POOL, 2);
    await completed(services, await submit(services, 4));
  });

  for (const driver of ['memory', 'sqlite'] as const) itSurvivesThreadDeaths(driver, groups);
});
