import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';

/** Creates a data folder, a runner of the keys program on it, and a second connection to its keys. */
export async function fresh() {
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  const beside = new DatabaseSync(join(dataDir, 'auth.db'));
  afterTest(() => beside.close());
  const records = () => beside.prepare('SELECT * FROM api_keys ORDER BY id').all();
  return { dataDir, beside, records, keys: (...args: string[]) => runCommand('keys', args, { dataDir }) };
}

/** Defines a test for each list of arguments, of which each test starts a process. */
export function itRefuses(refusals: readonly [args: string[], line: string | RegExp][]): void {
  for (const [args, line] of refusals) {
    it(`refuses ${JSON.stringify(args)} with one line and the usage`, async () => {
      const { keys, records } = await fresh();
      const { code, stdout, stderr } = await keys(...args);
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      const [first, empty, usage] = stderr.split('\n');
      if (typeof line === 'string') expect(first).to.equal(line);
      else expect(first).to.match(line);
      expect([empty, usage]).to.deep.equal(['', 'npm run keys -- <command>']);
      expect(records()).to.deep.equal([]);
    });
  }
}
