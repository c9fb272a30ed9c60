import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable, sabotage } from '../support/inspector.ts';
import { request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { itSurvivesThreadDeaths } from './thread-deaths.ts';
import { completed, submit } from './uppercase-tasks.ts';

const POOL = /piscina/;

describe('the sudden death', () => {
  itSurvivesThreadDeaths('sqlite', [
    { pool: 1, ticker: 0 },
    { pool: 0, ticker: 1 },
    { pool: 2, ticker: 1 },
  ]);

  it('of a pool thread counts a crash for the task whose handler was running, and for no other task', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    for (let round = 1; round <= 2; round++) {
      await inspector.alive(POOL, 2);
      const folder = await temporaryFolder();
      const [begun, go] = [join(folder, 'begun'), join(folder, 'go')];
      const waitAndDie = `while (!process.getBuiltinModule('fs').existsSync(${JSON.stringify(go)})); process.exit(3);`;
      await inspector.evaluate(POOL, sabotage(waitAndDie, [begun]));
      const [bad] = (await submit(services, 1, 'bad')) as [string];
      await eventually(
        () => existsSync(begun),
        (exists) => exists,
      );
      const others = submit(services, 8);
      writeFileSync(go, '');
      await completed(services, [bad, ...(await others)]);
      const failures = services.lines.filter(({ failure }) => failure !== undefined);
      expect(failures).to.have.length(round);
      expect(failures.at(-1)).to.include({ task: bad, failure: 'crash', attempt: 1, decision: 'retry' });
    }
    const { completed: done, dead } = (await request(`${services.tasks}/queue`)).body;
    expect({ done, dead }).to.deep.equal({ done: 18, dead: 0 });
  });
});
