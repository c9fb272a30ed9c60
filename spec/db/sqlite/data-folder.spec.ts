import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { lockDataFolder } from '../../../db/sqlite/data-folder.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

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

  it('refuses a folder that another process uses, until that ends, however it ends', async () => {
    const folder = await temporaryFolder();
    const module = new URL('../../../db/sqlite/data-folder.ts', import.meta.url).href;
    const code = `(await import(${JSON.stringify(module)})).lockDataFolder(process.argv[1]);
      console.log('locked'); setInterval(() => {}, 1000);`;
    const holder = spawn(process.execPath, ['--input-type=module', '--eval', code, folder]);
    const exited = once(holder, 'exit');
    afterTest(() => holder.kill('SIGKILL'));
    await once(holder.stdout, 'data');
    expect(() => lockDataFolder(folder)).to.throw(/ is in use: /);
    holder.kill('SIGKILL');
    await exited;
    lockDataFolder(folder)();
  });

  it('says what to do about a lock that cannot be taken', async () => {
    const folder = await temporaryFolder();
    mkdirSync(join(folder, 'queue.lock'));
    expect(() => lockDataFolder(folder)).to.throw(
      /unable to open database file: delete the file, which holds no data$/,
    );
    const other = await temporaryFolder();
    await writeFile(join(other, 'queue.lock'), 'no database '.repeat(100));
    expect(() => lockDataFolder(other)).to.throw(/file is not a database: delete the file, which holds no data$/);
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
