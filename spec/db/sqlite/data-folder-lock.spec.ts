import { existsSync, mkdirSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { lockDataFolder } from '../../../db/sqlite/data-folder-lock.ts';
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
    lockDataFolder(folder)();
  });

  it('says what to do about a lock that cannot be taken', async () => {
    const folder = await temporaryFolder();
    mkdirSync(join(folder, 'queue.lock'));
    expect(() => lockDataFolder(folder)).to.throw(
      /unable to open database file: delete the file, which holds no data$/,
    );
  });

  it('says what to do about a data folder that is a file or cannot be written to', async () => {
    const file = join(await temporaryFolder(), 'file');
    await writeFile(file, '');
    for (const folder of [file, ...(existsSync('/proc/self') ? ['/proc'] : [])]) {
      expect(() => lockDataFolder(folder)).to.throw(
        `cannot lock ${folder}/queue.lock: unable to open database file: set DATA_DIR to another folder`,
      );
    }
  });

  it('says which folder cannot be created, and what to do', async () => {
    const file = join(await temporaryFolder(), 'file');
    await writeFile(file, '');
    for (const folder of [join(file, 'data'), ...(existsSync('/proc/self') ? ['/proc/nowhere/data'] : [])]) {
      expect(() => lockDataFolder(folder))
        .to.throw(`cannot create the folder ${folder}: `)
        .and.have.property('message')
        .that.matches(/: set DATA_DIR to another folder$/);
    }
  });
});
