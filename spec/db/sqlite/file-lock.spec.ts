import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { Locked, lock } from '../../../db/sqlite/file-lock.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

describe('lock', () => {
  it('is held once, and again after its release', async () => {
    const path = join(await temporaryFolder(), 'a.lock');
    const unlock = lock(path);
    expect(() => lock(path)).to.throw(Locked, `${path} is locked`);
    unlock();
    unlock();
    lock(path)();
  });

  it('is held by another process until that ends, however it ends', async () => {
    const path = join(await temporaryFolder(), 'a.lock');
    const code = `(await import(${JSON.stringify(new URL('../../../db/sqlite/file-lock.ts', import.meta.url).href)})).lock(process.argv[1]);
      console.log('locked'); setInterval(() => {}, 1000);`;
    const holder = spawn(process.execPath, ['--input-type=module', '--eval', code, path]);
    const exited = once(holder, 'exit');
    afterTest(() => holder.kill('SIGKILL'));
    await once(holder.stdout, 'data');
    expect(() => lock(path)).to.throw(Locked);
    holder.kill('SIGKILL');
    await exited;
    lock(path)();
  });

  it('says why a file cannot be locked', async () => {
    expect(() => lock(join('/nowhere', 'a.lock')))
      .to.throw(Error, 'unable to open')
      .and.not.be.instanceOf(Locked);
    const path = join(await temporaryFolder(), 'a.lock');
    await writeFile(path, 'no database '.repeat(100));
    expect(() => lock(path))
      .to.throw(Error, 'file is not a database')
      .and.not.be.instanceOf(Locked);
  });
});
