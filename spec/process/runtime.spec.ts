import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { runtimeIsNewEnough } from '../../main/process/runtime.ts';
import { projectFolder } from '../support/program.ts';

describe('the version of Node', () => {
  it('is new enough from 24.15 on', () => {
    for (const version of ['0.12.18', '18.20.8', '22.22.0', '23.99.0', '24.0.0', '24.9.0', '24.14.99'])
      expect(runtimeIsNewEnough(version), version).to.equal(false);
    for (const version of ['24.15.0', '24.15.0-nightly20260101', '24.100.0', '25.0.0', '26.10.0', '100.0.0'])
      expect(runtimeIsNewEnough(version), version).to.equal(true);
    expect(runtimeIsNewEnough()).to.equal(true);
  });

  it('is required alike by package.json', () => {
    const { engines } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'));
    const [, major, minor] = /^>=(\d+)\.(\d+)$/.exec(engines.node) ?? [];
    expect(runtimeIsNewEnough(`${major}.${minor}.0`)).to.equal(true);
    expect(runtimeIsNewEnough(`${major}.${Number(minor) - 1}.99`)).to.equal(false);
  });
});
