import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { startRedirected } from '../support/redirected-services.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../support/small-disk.ts';
import { eventually } from '../support/until.ts';
import { describeDevices, describeTerminals, failTask, serveDuring, stop } from './output-faults.ts';

describeDevices('json');
describeTerminals('pretty');

describeWithSmallDisk('a log file on a full disk', () => {
  it('loses lines, and reports their number once there is room again', async () => {
    const disk = await mountSmallDisk(1);
    const path = join(disk.path, 'log');
    const services = await startRedirected({ redirect: `>${path}`, env: { LOG_FORMAT: 'json' } });
    await serveDuring(services, () => disk.fill());
    // The last page of the file may still have had room for some lines.
    await eventually(
      () => failTask(services).then(() => services.metric('log_lines_lost_total')),
      (lost) => lost > 0,
    );
    await disk.free();
    await failTask(services);
    await stop(services);
    const lines = readFileSync(path, 'utf8').trim().split('\n').flatMap(parsed);
    expect(lines.at(-1)).to.include({ msg: 'stopped' });
    const report = lines.find(({ msg }) => msg === 'log lines were lost: standard output did not take them');
    expect(report).to.include({ level: 40 });
    expect(report?.lost).to.be.at.least(1);
  });
});

/** The line truncated by the full disk is not valid JSON. */
function parsed(line: string): Record<string, unknown>[] {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}
