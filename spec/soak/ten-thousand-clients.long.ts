import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { gather } from '../support/crowd.ts';
import { openSockets, residentBytes } from '../support/proc.ts';
import { startServices } from '../support/program.ts';

const READERS = 9_000;
const NEVER_READ = 1_000;

const KIB = 1024;
/**
 * Twice the measured memory of a client, 16 KiB, mostly Node's (socket, streams, listeners). A client that does not
 * read may add the 8 KiB of its socket's buffer and one tick.
 */
const BYTES_A_CLIENT = 32 * KIB;
/** A minute's garbage on the heap, independent of the number of clients. */
const GROWTH = 64 * KIB * KIB;

describe('a thousand clients that never read, among ten thousand', () => {
  it('use a bounded amount of memory and are disconnected, and the others receive every tick', async function () {
    if (process.platform !== 'linux') this.skip();
    const services = await startServices();
    const pid = services.child.pid as number;
    const others = openSockets(pid);
    const memory = [residentBytes(pid)];
    const crowd = await gather({
      port: Number(new URL(services.ticker).port),
      token: await services.token(),
      readers: READERS,
      // The kernel buffers hours of unread ticks, so the ping timeout ends these clients, not a full buffer.
      silent: NEVER_READ / 2,
      chatty: NEVER_READ / 2,
    });
    memory.push(residentBytes(pid));
    expect(openSockets(pid)).to.be.at.least(READERS + NEVER_READ);

    // A client that does not read is pinged after 30 s and disconnected 30 s later.
    while (openSockets(pid) > READERS + others) {
      await setTimeout(1000);
      memory.push(residentBytes(pid));
    }
    expect(openSockets(pid), 'sockets').to.be.at.least(READERS);

    const report = await crowd.report();
    const mib = memory.map((bytes) => Math.round(bytes / KIB / KIB));
    const { ticker } = report.types;
    console.log(`    MiB: ${mib[0]} before, ${mib[1]} joined, ${Math.max(...mib)} at most; ${ticker} ticks`);
    expect(report).to.deep.include({ lacking: 0, missed: 0, closed: {} });
    expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
    const [first = 0] = report.timestamps;
    expect(report.timestamps).to.deep.equal(report.timestamps.map((_, index) => first + index));
    expect(report.timestamps.length).to.be.at.least(50);

    const [before = 0, joined = 0] = memory;
    expect(Math.max(...memory) - before).to.be.at.most((READERS + NEVER_READ) * BYTES_A_CLIENT);
    expect(Math.max(...memory) - joined).to.be.at.most(GROWTH);

    await crowd.letAllRead();
    while ((await crowd.report()).open > READERS) await setTimeout(100);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  }).timeout(600_000);
});
