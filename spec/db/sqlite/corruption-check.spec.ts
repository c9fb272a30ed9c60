import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { checkDamage, Damaged, isDamage } from '../../../db/sqlite/corruption-check.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

const PAGE = 4096;

/** Opens a database with a table of many pages, one of which may be overwritten. */
async function database(damagedPage?: (pages: number) => number): Promise<DatabaseSync> {
  const path = join(await temporaryFolder(), 'a.db');
  const made = new DatabaseSync(path);
  made.exec('CREATE TABLE t (x); BEGIN');
  const insert = made.prepare('INSERT INTO t VALUES (?)');
  for (let row = 0; row < 500; row++) insert.run('x'.repeat(200));
  made.exec('COMMIT');
  const { page_count: pages } = made.prepare('PRAGMA page_count').get() as { page_count: number };
  made.close();
  if (damagedPage !== undefined) {
    const file = openSync(path, 'r+');
    writeSync(file, Buffer.alloc(PAGE, 7), 0, PAGE, PAGE * damagedPage(pages));
    closeSync(file);
  }
  const opened = new DatabaseSync(path);
  afterTest(() => opened.close());
  return opened;
}

/** Checks table `t`. Returns the error, or undefined. */
function thrown(opened: DatabaseSync, maxWholeCheck?: number): unknown {
  try {
    checkDamage(opened, ['t', 'absent'], maxWholeCheck);
    return undefined;
  } catch (error) {
    return error;
  }
}

describe('checkDamage', () => {
  it('finds nothing in a sound database, whole or not', async () => {
    const sound = await database();
    expect(thrown(sound)).to.equal(undefined);
    expect(thrown(sound, 0)).to.equal(undefined);
  });

  it('finds a damaged page in the middle, and says so in one line', async () => {
    const error = thrown(await database((pages) => Math.floor(pages / 2)));
    expect(error).to.be.instanceOf(Damaged).and.satisfy(isDamage);
    expect((error as Error).message).to.match(/^it is damaged: .*$/);
  });

  it('finds a damaged root of a large table by reading its first and last row', async () => {
    const error = thrown(await database(() => 1), 0);
    expect(error).to.satisfy(isDamage).and.property('message', 'database disk image is malformed');
  });
});

describe('isDamage', () => {
  it('tells damage from a lock and from a bug', () => {
    expect(
      [11, 26, 267, 5, undefined].map((errcode) => isDamage(Object.assign(new Error(), { errcode }))),
    ).to.deep.equal([true, true, true, false, false]);
  });
});
