import { expect } from 'chai';
import type { Sight } from './neighbours.ts';
import { broken, effectiveBounds, type Footprint, type Observation, usualBounds } from './verdict.ts';

const MIB = 1024 * 1024;

const quiet: Sight = {
  ...{ seconds: 5, open: 20, ticks: 50, missed: 0, tickMs: 4, machineMs: 1, errors: {}, disconnections: {} },
  ...{ submitted: 50, accepted: 50, submitMs: 9, probes: 5, healthMs: 3 },
};
const footprint = { resident: 100 * MIB, live: 20 * MIB, descriptors: 40 };

function observation(sight: Partial<Sight> = {}, rest: Partial<Observation> = {}): Observation {
  const measured = { start: footprint, before: footprint, after: footprint };
  return { sight: { ...quiet, ...sight }, peakMib: 1, ...measured, actions: 1, outcomes: {}, errors: [], ...rest };
}

const left = (after: Partial<Footprint>) => observation({}, { after: { ...footprint, ...after } });

describe('the verdict on a scenario', () => {
  it('names nothing if the neighbours observed nothing', () => {
    expect(broken(observation(), usualBounds, undefined)).to.deep.equal([]);
  });

  for (const [what, observed, line] of [
    ['a late tick', observation({ tickMs: 101.2 }), 'tick late by ms: 101 over 100'],
    ['a late health answer', observation({ healthMs: 300 }), 'health answer after ms: 300 over 250'],
    ['a missed tick', observation({ missed: 2 }), 'ticks missed: 2 over 0'],
    ['a refused submission', observation({ errors: { 'submission: 503': 3 } }), '3 × submission: 503'],
    ['a closed stream', observation({ disconnections: { ECONNRESET: 1 } }), '1 streams ended: ECONNRESET'],
    ['objects that stay', left({ live: 25 * MIB }), 'memory left in MiB: 5 over 4'],
    ['pages that stay', left({ resident: 600 * MIB }), 'resident memory left in MiB: 500 over 448'],
    ['open descriptors', left({ descriptors: 50 }), 'descriptors left: 7 over 0'],
    ['an attack that did nothing', observation({}, { actions: 0 }), 'the attack sent nothing'],
    ['a wrong answer', observation({}, { outcomes: { 500: 1 } }), 'wrong outcome: 500'],
  ] as const) {
    it(`names ${what}`, () => {
      expect(broken(observed, usualBounds, /^202$/)).to.deep.equal([line]);
    });
  }

  it('allows refusals and disconnections if the scenario does', () => {
    const [errors, disconnections] = [{ 'submission: no answer': 9 }, { 'close code 1001': 20 }];
    const seen = observation({ errors, disconnections, open: 0 });
    const bounds = { ...usualBounds, refusals: true, disconnections: true };
    expect(broken(seen, bounds, undefined)).to.deep.equal([]);
  });

  it('allows twice the delays of the machine', () => {
    const baseline = { tickMs: 60, healthMs: 20 };
    const bounds = effectiveBounds(usualBounds, baseline, { ...quiet, machineMs: 150 });
    expect(bounds).to.include({ tickMs: 300, healthMs: 300 });
  });
});
