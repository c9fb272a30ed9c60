import { setImmediate } from 'node:timers/promises';
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
  return { batches, add, written, writes, end: (error?: Error) => end(error) };
}

describe('Batches', () => {
  it('refuses items above 64 MiB that wait, but accepts a larger item alone, and writes 8 MiB at a time', async () => {
    const { batches, add, written, writes, end } = waitingBatches();
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
    const sizes = [55 * MIB, 4 * MIB, 4 * MIB, MIB];
    const all = sizes.map(add);
    for (const count of [3, 4, 5]) {
      await writes(count);
      expect(await Promise.race([batches.drained(), setImmediate('not drained')])).to.equal('not drained');
      end();
    }
    await batches.drained();
    expect(await Promise.all(all)).to.deep.equal(sizes);
    expect(written.at(-1)).to.deep.equal([MIB]);
  });

  it('refuses the 10,001st item that waits, and writes a thousand at a time, also after a batch that failed', async () => {
    const { add, written, writes, end } = waitingBatches();
    const items = [add(1)];
    await writes(1);
    for (let count = 0; count < 10_000; count++) items.push(add(1));
    expect(await add(1)).to.equal('DatabaseUnavailable');
    end(new Error('no'));
    await writes(2);
    expect(written[1]).to.have.length(1000);
    end(new DatabaseUnavailable('gone'));
    await Promise.all(items);
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
