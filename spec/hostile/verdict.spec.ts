import { expect } from 'chai';
import type { Sight } from './neighbours.ts';
import { broken, effectiveBounds, type Footprint, MIB, type Observation, usualBounds } from './verdict.ts';

const quiet: Sight = {
  ...{ seconds: 5, open: 20, ticks: 50, missed: 0, tickMs: 4, machineMs: 1, errors: {}, disconnections: {} },
  ...{ accepted: 50, submitMs: 9, healthMs: 3 },
};
const footprint = { resident: 100 * MIB, live: 20 * MIB, descriptors: 40 };

function observation(sight: Partial<Sight> = {}, rest: Partial<Observation> = {}): Observation {
  const measured = { start: footprint, before: footprint, after: footprint };
  return { sight: { ...quiet, ...sight }, peakMib: 1, ...measured, actions: 1, outcomes: {}, errors: [], ...rest };
}

const left = (after: Partial<Footprint>) => observation({}, { after: { ...footprint, ...after } });

describe('the verdict on a scenario', () => {
  const seen: Record<string, [observed: Observation, ...lines: string[]]> = {
    'nothing if the neighbours observed nothing': [observation()],
    'a late tick': [observation({ tickMs: 101.2 }), 'tick late by ms: 101 over 100'],
    'a late health answer': [observation({ healthMs: 300 }), 'health answer after ms: 300 over 250'],
    'a missed tick': [observation({ missed: 2 }), 'ticks missed: 2 over 0'],
    'no tick': [observation({ ticks: 0 }), 'no tick'],
    'a stream that is not open': [observation({ open: 19 }), '19 of 20 streams are open'],
    'a peak of memory': [observation({}, { peakMib: 400 }), 'peak of memory in MiB: 400 over 384'],
    'an attack that failed': [observation({}, { errors: ['Error: x'] }), 'Error: x'],
    'a refused submission': [observation({ errors: { 'submission: 503': 3 } }), '3 × submission: 503'],
    'a closed stream': [observation({ disconnections: { ECONNRESET: 1 } }), '1 streams ended: ECONNRESET'],
    'objects that stay': [left({ live: 25 * MIB }), 'memory left in MiB: 5 over 4'],
    'pages that stay': [left({ resident: 600 * MIB }), 'resident memory left in MiB: 500 over 448'],
    'open descriptors': [left({ descriptors: 50 }), 'descriptors left: 7 over 0'],
    'an attack that did nothing': [observation({}, { actions: 0 }), 'the attack sent nothing'],
    'a wrong answer': [observation({}, { outcomes: { 500: 1 } }), 'wrong outcome: 500'],
  };
  it('names each effect on the neighbours, what is left, and an attack without effect or with wrong answers', () => {
    for (const [what, [observed, ...lines]] of Object.entries(seen))
      expect(broken(observed, usualBounds, /^202$/), what).to.deep.equal(lines);
  });

  it('allows refusals if the scenario does, and twice the delays of the machine', () => {
    const refused = observation({ errors: { 'submission: no answer': 9 } });
    expect(broken(refused, { ...usualBounds, refusals: true }, undefined)).to.deep.equal([]);
    const bounds = effectiveBounds(usualBounds, { tickMs: 60, healthMs: 20 }, { ...quiet, machineMs: 150 });
    expect(bounds).to.include({ tickMs: 300, healthMs: 300 });
  });
});
