import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { limits } from './limits.ts';

const root = join(import.meta.dirname, '..');

const sources: Record<string, [patterns: string[], exclude: RegExp, least: number, most: number]> = {
  program: [['main/**', 'workers/**', 'db/**'], /grafana|\.json$/, 10_000, limits.programLines],
  pages: [['www/{tasks,ticker,shared}/**'], /\.(png|svg)$/, 5_000, limits.pageLines],
  specs: [['spec/**'], /package-lock\.json$/, 10_000, limits.specLines],
};

describe('the size of the project', () => {
  for (const [name, [patterns, exclude, least, most]] of Object.entries(sources)) {
    it(`stays within the limit of the ${name}`, () => {
      const files = globSync(patterns, { cwd: root, exclude: ['**/node_modules/**'] });
      const texts = files.filter((file) => /\.\w+$/.test(file) && !exclude.test(file));
      const lines = texts.map((file) => readFileSync(join(root, file), 'utf8').split('\n').length - 1);
      expect(lines.reduce((sum, count) => sum + count, 0)).to.be.within(least, most);
    });
  }
});
