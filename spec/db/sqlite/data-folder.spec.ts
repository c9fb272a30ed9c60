import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { lockDataFolder } from '../../../db/sqlite/data-folder.ts';
import { temporaryFolder } from '../../support/cleanup.ts';

describe('lockDataFolder', () => {
  it('creates the folder and its parents for their owner only', async () => {
    const folder = join(await temporaryFolder(), 'a', 'b');
    lockDataFolder(folder)();
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
  });

  it('refuses a folder in use, until it is released', async () => {
    const folder = await temporaryFolder();
    const unlock = lockDataFolder(folder);
    const message = `${folder} is in use: stop the services that use it, or set DATA_DIR to another folder`;
    expect(() => lockDataFolder(folder)).to.throw(message);
    unlock();
    unlock();
    lockDataFolder(folder)();
  });
});
