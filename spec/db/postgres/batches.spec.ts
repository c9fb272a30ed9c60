import { expect } from 'chai';
import { Batches } from '../../../db/postgres/batches.ts';
import { DatabaseUnavailable, ValueRefused } from '../../../db/task-store.ts';
import { until } from '../../support/until.ts';

const MIB = 1024 * 1024;

/** Returns batches of items whose size is their value, the written items, and a function that ends the write in progress. */
function waitingBatches() {
  const written: (readonly number[])[] = [];
  let end = (_?: Error) => {};
  const write = (items: readonly number[]) => {
    written.push(items);
    return new Promise<readonly number[]>((resolve, reject) => {
      end = (error) => (error === undefined ? resolve(items) : reject(error));
    });
  };
  const batches = new Batches<number, number>(write, (item) => item);
  const add = (item: number) => batches.add(item).catch(({ name }: Error) => name);
  const writes = (count: number) => until(() => written.length === count);
  return { add, written, writes, end: (error?: Error) => end(error) };
}

describe('Batches', () => {
  it('refuses items above 64 MiB that wait, but accepts a larger item alone', async () => {
    const { add, writes, end } = waitingBatches();
    const first = add(65 * MIB);
    await writes(1);
    const waiting = [add(40 * MIB), add(24 * MIB)];
    expect(await add(1)).to.equal('DatabaseUnavailable');
    end();
    await writes(2);
    const next = add(40 * MIB);
    end(new DatabaseUnavailable('gone'));
    expect(await first).to.equal(65 * MIB);
    expect(await Promise.all([...waiting, next])).to.deep.equal(Array(3).fill('DatabaseUnavailable'));
    const all = [add(40 * MIB), add(24 * MIB)];
    await writes(3);
    end();
    await writes(4);
    end();
    expect(await Promise.all(all)).to.deep.equal([40 * MIB, 24 * MIB]);
  });

  it('refuses the 10,001st item that waits', async () => {
    const { add, writes, end } = waitingBatches();
    const items = [add(1)];
    await writes(1);
    for (let count = 0; count < 10_000; count++) items.push(add(1));
    expect(await add(1)).to.equal('DatabaseUnavailable');
    end(new DatabaseUnavailable('gone'));
    await Promise.all(items);
  });

  it('writes up to 1000 items at a time, and 8 MiB', async () => {
    const { add, written, writes, end } = waitingBatches();
    for (const item of [...Array(1001).fill(0), 4 * MIB, 4 * MIB, 1]) void add(item);
    for (let count = 1; count <= 3; count++) {
      await writes(count);
      end();
    }
    expect(written.map(({ length }) => length)).to.deep.equal([1000, 3, 1]);
  });

  it('rejects the other items of a batch that is written one by one, if the database becomes unavailable', async () => {
    const { add, written, writes, end } = waitingBatches();
    const items = [add(1), add(2), add(3), add(4)];
    await writes(1);
    const next = add(5);
    end(new ValueRefused('no'));
    await writes(2);
    end(new ValueRefused('no'));
    await writes(3);
    end();
    await writes(4);
    end(new DatabaseUnavailable('gone'));
    expect(await Promise.all(items.slice(0, 2))).to.deep.equal(['ValueRefused', 2]);
    expect(await Promise.all([...items.slice(2), next])).to.deep.equal(Array(3).fill('DatabaseUnavailable'));
    expect(written).to.deep.equal([[1, 2, 3, 4], [1], [2], [3]]);
  });
});
