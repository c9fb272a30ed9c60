import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { runtimeIsNewEnough } from '../../main/process/runtime.ts';
import { projectFolder } from '../support/program.ts';

describe('the runtime', () => {
  const table: Record<string, boolean> = {
    '0.12.18': false,
    '18.20.8': false,
    '20.19.0': false,
    '22.22.0': false,
    '23.99.0': false,
    '24.0.0': false,
    '24.9.0': false,
    '24.14.99': false,
    '24.15.0': true,
    '24.15.0-nightly20260101': true,
    '24.100.0': true,
    '25.0.0': true,
    '26.10.0': true,
    '100.0.0': true,
  };
  for (const [version, newEnough] of Object.entries(table)) {
    it(`${version} is ${newEnough ? 'new enough' : 'too old'}`, () => {
      expect(runtimeIsNewEnough(version)).to.equal(newEnough);
    });
  }

  it('that runs this is new enough', () => {
    expect(runtimeIsNewEnough()).to.equal(true);
  });

  it('is asked for alike in package.json', () => {
    const { engines } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'));
    const [, major, minor] = /^>=(\d+)\.(\d+)$/.exec(engines.node) ?? [];
    expect(runtimeIsNewEnough(`${major}.${minor}.0`)).to.equal(true);
    expect(runtimeIsNewEnough(`${major}.${Number(minor) - 1}.99`)).to.equal(false);
  });
});
