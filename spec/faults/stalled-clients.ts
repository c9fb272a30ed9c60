import { expect } from 'chai';
import { type CrowdReport, gather } from '../support/crowd.ts';
import { residentBytes } from '../support/proc.ts';
import { startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Asserts that every reader received every tick and nothing else. */
export function expectEveryTick(report: CrowdReport): void {
  expect(report).to.deep.include({ behind: 0, gaps: 0 });
  expect(Object.keys(report.types)).to.have.members(['welcome', 'ticker']);
}

/**
 * Defines the spec of a real process with `clients`, a multiple of 20. Each may cost 16 KiB; the rest of the bound is heap
 * fluctuation, most of it from the first requests.
 */
export function itServesBesideStalled(clients: number): void {
  it(`a tenth of ${clients}, are seen by no other one, and the memory stays bounded`, async () => {
    const services = await startServices({ env: { TICK_INTERVAL_MS: '100' } });
    const pid = services.child.pid as number;
    const port = Number(new URL(services.ticker).port);
    const before = residentBytes(pid);
    const crowd = await gather({
      port,
      token: await services.token(),
      readers: 0.9 * clients,
      silent: 0.05 * clients,
      chatty: 0.05 * clients,
    });
    const report = await eventually(
      () => crowd.report(),
      ({ timestamps }) => timestamps.length >= 30,
    );
    expectEveryTick(report);
    expect(report).to.deep.include({ closed: {}, open: clients });
    expect(residentBytes(pid) - before).to.be.at.most(112 * MIB + clients * 16 * KIB);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
}
