import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../../support/cleanup.ts';
import { examples, paste } from '../../support/examples.ts';
import { startServices, watch } from '../../support/program.ts';

describe('the guide to keys and data', () => {
  it('creates and revokes a key and makes a backup while the services run, twice', async () => {
    const [DATA_DIR, HOME] = [await temporaryFolder(), await temporaryFolder()];
    await startServices({ env: { DATA_DIR } });
    const commands = ['Keys', 'Backup'].flatMap((heading) => examples('www/guide/data.md', heading)).join('');
    for (let time = 1; time <= 2; time++) {
      const shell = watch(paste(`date() { echo ${time}; }\n${commands}`, { DATA_DIR, HOME }));
      expect(await shell.exited, shell.errors()).to.include({ code: 0 });
      expect(shell.output() + shell.errors()).to.match(/revoked key \d+ of alice/);
    }
    expect(readdirSync(join(HOME, 'backups'))).to.deep.equal(['1', '2']);
  });
});
