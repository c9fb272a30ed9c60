import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { defaults } from '../../main/config.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

const UNIT = 'ticker-and-tasks.service';
const text = readFileSync(join(projectFolder, 'main/deployment', UNIT), 'utf8');

describe('the systemd unit', () => {
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];

  it('stops the services later than SHUTDOWN_TIMEOUT_MS, and keeps the data in its state folder', () => {
    expect(Number(setting('TimeoutStopSec')) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
    expect(setting('Environment')).to.include(`DATA_DIR=/var/lib/${setting('StateDirectory')}`);
  });
});

describeWith(lackingProgram('systemd-analyze'), 'systemd-analyze', () => {
  it('finds no mistake in the unit, and an exposure of at most 2.0', async () => {
    const file = join(await temporaryFolder(), UNIT);
    await writeFile(file, text.replaceAll('/opt/ticker-and-tasks', projectFolder.replace(/\/$/, '')));
    const verified = await run('systemd-analyze', ['verify', '--man=no', file]);
    expect(verified).to.deep.equal({ code: 0, stdout: '', stderr: '' });
    // In tenths of systemd's exposure score, which is 15 for this unit and 96 without any hardening.
    const exposure = await run('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
    expect(exposure, exposure.stdout).to.include({ code: 0 });
  });
});
