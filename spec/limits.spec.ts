import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { limits } from './limits.ts';

const root = join(import.meta.dirname, '..');

function lines(patterns: string[], exclude: RegExp): number {
  const files = globSync(patterns, { cwd: root, exclude: ['**/node_modules/**'] });
  const texts = files.filter((file) => /\.\w+$/.test(file) && !exclude.test(file));
  return texts.reduce((sum, file) => sum + readFileSync(join(root, file), 'utf8').split('\n').length - 1, 0);
}

describe('the size of the project', () => {
  it('stays within the limit of the program', () => {
    expect(lines(['main/**', 'workers/**', 'db/**'], /grafana|\.json$/)).to.be.within(10_000, limits.programLines);
  });

  it('stays within the limit of the pages', () => {
    expect(lines(['www/{tasks,ticker,shared}/**'], /\.(png|svg)$/)).to.be.within(5_000, limits.pageLines);
  });

  it('stays within the limit of the specs', () => {
    expect(lines(['spec/**'], /package-lock\.json$/)).to.be.within(10_000, limits.specLines);
  });
});
