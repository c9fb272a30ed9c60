import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { run } from '../support/command.ts';
import { SeededRandom } from '../support/random.ts';
import { planFrom, shrink, simulate } from './simulate.ts';
import { faultSets, type SimulationOptions } from './world.ts';

const STEPS = 40;
const PROGRAM = fileURLToPath(new URL('simulate.ts', import.meta.url));

describe('the simulator', () => {
  for (const faults of faultSets) {
    it(`finds no broken guarantee in 20 seeds with the faults '${faults}'`, async () => {
      for (let seed = 1; seed <= 20; seed += 1) {
        // Several nodes, as with the faults 'nodes'.
        if (faults === 'all' && seed % 4 === 0) continue;
        const { violation } = await simulate({ seed, steps: STEPS, faults });
        expect(violation, `seed ${seed}`).to.equal(undefined);
      }
    });
  }

  it('no longer finds an event of a redrive after the next run', async () => {
    expect((await simulate({ seed: 2, steps: 200, faults: 'all' })).violation).to.equal(undefined);
  });

  it('writes the same log for the same seed', async () => {
    const runs = [1, 4, 7].map((seed): SimulationOptions => ({ seed, steps: STEPS, faults: 'all' }));
    // Processes log errors with the name of a file, and with a stack.
    runs.push({ seed: 15, steps: 150, faults: 'crash' }, { seed: 27, steps: STEPS, faults: 'crash' });
    for (const options of runs) {
      const logs = [[], []] as string[][];
      for (const log of logs) await simulate({ ...options, note: (line) => log.push(line) });
      expect(logs[0]).to.have.length.above(STEPS);
      expect(logs[0]).to.deep.equal(logs[1]);
      expect(logs.join()).to.not.include('file:');
    }
  });

  it('runs the given steps only', async () => {
    const { ran } = await simulate({ seed: 1, steps: STEPS, faults: 'crash', only: new Set([3, 5, 99]) });
    expect(ran).to.deep.equal([3, 5]);
  });

  it('leaves out all steps but those that a failure needs', async () => {
    const steps = Array.from({ length: 100 }, (_, index) => index);
    const fails = async (kept: readonly number[]) => [7, 50, 51, 99].every((step) => kept.includes(step));
    expect(await shrink(steps, fails)).to.deep.equal([7, 50, 51, 99]);
  });

  it('has random numbers that a fork does not change', () => {
    const [one, other] = [new SeededRandom('1'), new SeededRandom('1')];
    one.fork('x').number();
    expect(one.number()).to.equal(other.number());
    expect(one.fork('x').number()).to.not.equal(one.fork('y').number());
    expect(one.uuid()).to.match(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  });

  it('prints the log of one seed, and runs several in threads', async () => {
    const single = await run(process.execPath, [PROGRAM, '--seed', '4711', '--steps', '20']);
    expect([single.code, single.stdout]).to.deep.equal([0, single.stdout]);
    expect(single.stdout).to.match(/seed 4711 holds all guarantees\n$/);
    const several = await run(process.execPath, [PROGRAM, '--seed', '1', '--runs', '2', '--steps', '5']);
    expect([several.code, several.stdout]).to.deep.equal([0, several.stdout]);
    expect(several.stdout).to.match(/\n2 runs, [\d.]+ a second\n$/);
  });

  it('explains a wrong argument', async () => {
    const stderr = "Unknown option '--bogus'\n";
    expect(await run(process.execPath, [PROGRAM, '--bogus'])).to.include({ code: 2, stdout: '', stderr });
    for (const [option, value] of Object.entries({ seed: 'x', faults: 'x', only: '1', runs: '0' }))
      expect(() => planFrom([`--${option}`, value])).to.throw(`--${option} `);
  });
});
