import { expect } from 'chai';
import { seed, seedNote } from '../support/seed.ts';
import { attackAll } from './proving-ground.ts';
import { scenarios } from './scenarios/all.ts';

/** Bounds that a slow machine breaks. `npm run hostile` holds them on an idle one. */
const BY_MACHINE = /^(tick late|health answer|peak of memory|resident memory|ticks missed)/;

describe('attacks on real processes', () => {
  it(`delay, refuse and disconnect no other client, and keep no memory and no descriptor ${seedNote}`, async function () {
    if (process.platform !== 'linux') this.skip();
    const broken: string[] = [];
    for await (const result of attackAll(scenarios, seed, Number(process.env.HOSTILE_SECONDS ?? 1))) {
      const lines = result.broken.filter((bound) => !BY_MACHINE.test(bound));
      broken.push(...lines.map((bound) => `${result.name}: ${bound}`));
    }
    expect(broken).to.deep.equal([]);
  }).timeout(900_000);
});
