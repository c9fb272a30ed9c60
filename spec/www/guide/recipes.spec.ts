import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectFolder } from '../../support/program.ts';

const pages = ['README.md', ...globSync('www/guide/*.md', { cwd: projectFolder })];

/** Text that fails on macOS or in its shell, zsh, and the reason. */
const NOT_PORTABLE: [RegExp, string][] = [
  [/\/proc\//, 'macOS has no /proc'],
  [/^\s*#/m, 'zsh runs a pasted comment as a command'],
  [
    /\b(?:sed -i|sed -r|grep -P|readlink -f|date -d|stat -c|head -c -|tac|nproc|(?<!-)timeout \d)/,
    'needs GNU programs',
  ],
  [/^[^'"]*http:\S*[?*][^'"]*$/m, 'zsh takes an unquoted ? for a pattern'],
  [/\buuidgen\b|\/dev\/shm/, 'a minimal system lacks it'],
];

describe('the recipes of README and guide', () => {
  for (const page of pages) {
    it(`run in ${page} on macOS as well`, () => {
      const text = readFileSync(join(projectFolder, page), 'utf8');
      for (const [, example = ''] of text.matchAll(/```sh\n([\s\S]*?)```/g))
        for (const [pattern, reason] of NOT_PORTABLE) expect(example, reason).not.to.match(pattern);
    });

    it(`contain in ${page} no SQL`, () => {
      const text = readFileSync(join(projectFolder, page), 'utf8');
      for (const [, example = ''] of text.matchAll(/```sh\n([\s\S]*?)```/g))
        expect(example).not.to.match(/\b(?:SELECT|INSERT|UPDATE|DELETE FROM)\b|node:sqlite/);
    });
  }
});
