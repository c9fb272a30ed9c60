import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { defaults } from '../../main/config.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { projectFolder } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';

const run = promisify(execFile);
const UNIT = 'ticker-and-tasks.service';
const text = readFileSync(join(projectFolder, 'main/deployment', UNIT), 'utf8');

describe('the systemd unit', () => {
  const setting = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];

  it('waits longer for the end than the services take', () => {
    expect(Number(setting('TimeoutStopSec')) * 1000).to.be.greaterThan(defaults.shutdownTimeoutMs);
  });

  it('keeps the data where the unit may write', () => {
    expect(setting('Environment')).to.include(`DATA_DIR=/var/lib/${setting('StateDirectory')}`);
  });
});

describeWith(lackingProgram('systemd-analyze'), 'the systemd unit, in the eyes of systemd-analyze', () => {
  /** Writes the unit to a file, with this folder in place of /opt. Returns its path. */
  async function unitFile(): Promise<string> {
    const file = join(await temporaryFolder(), UNIT);
    await writeFile(file, text.replaceAll('/opt/ticker-and-tasks', projectFolder.replace(/\/$/, '')));
    return file;
  }

  it('holds no mistake, and starts a program that is there', async () => {
    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', await unitFile()]);
    expect(stderr).to.equal('');
  });

  it('leaves the process little to attack', async () => {
    // The threshold is in tenths of systemd's exposure score. The score is 15 for this unit, 96 without any
    // hardening.
    await run('systemd-analyze', ['security', '--offline=true', '--threshold=20', await unitFile()]);
  });
});
