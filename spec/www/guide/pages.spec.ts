import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { expect } from 'chai';
import { projectFolder } from '../../support/program.ts';

const pages = ['README.md', ...globSync('www/guide/*.md', { cwd: projectFolder })];
const read = (page: string) => readFileSync(resolve(projectFolder, page), 'utf8');

function anchors(text: string): string[] {
  const headings = Array.from(text.matchAll(/^#+ (.+)$/gm), ([, heading = '']) => heading.toLowerCase());
  return headings.map((heading) => heading.replace(/[^\w -]/g, '').replaceAll(' ', '-'));
}

/** Text that no recipe has, and the reason. Recipes run on macOS and in its shell, zsh, too. */
const REFUSED: [RegExp, string][] = [
  [/\/proc\//, 'macOS has no /proc'],
  [/^\s*#/m, 'zsh runs a pasted comment as a command'],
  [/\b(?:sed -i|sed -r|grep -P|readlink -f|date -d|stat -c|head -c -|tac|nproc|(?<!-)timeout \d)/, 'is GNU only'],
  [/^[^'"]*http:\S*[?*][^'"]*$/m, 'zsh takes an unquoted ? for a pattern'],
  [/\buuidgen\b|\/dev\/shm/, 'a minimal system lacks it'],
  [/\b(?:SELECT|INSERT|UPDATE|DELETE FROM)\b|node:sqlite/, 'users run no SQL'],
];

const SETTINGS = ['main/config.ts', 'package.json', 'compose.yaml', 'spec/support/seed.ts'];
const LONG_SPECS = ['spec/hostile/hostile.ts', 'spec/soak/load.long.ts', 'spec/faults/kill.long.ts'];

describe('README and guide', () => {
  const known = [...SETTINGS, ...LONG_SPECS].map(read).join();

  it('have a link in the README to each page of the guide', () => {
    for (const page of pages.slice(1)) expect(read('README.md')).to.include(`](${page})`);
  });

  for (const page of pages) {
    it(`have only links that resolve, and existing scripts and settings: ${page}`, () => {
      for (const [link, path = '', anchor] of read(page).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)) {
        const target = path === '' ? resolve(projectFolder, page) : resolve(projectFolder, dirname(page), path);
        expect(existsSync(target), link).to.equal(true);
        if (anchor !== undefined) expect(anchors(read(target)), link).to.include(anchor);
      }
      const { scripts } = JSON.parse(read('package.json'));
      for (const [, script = ''] of read(page).matchAll(/npm run (?:--silent )?([\w-]+)/g))
        expect(scripts).to.have.property(script);
      // Text without code blocks, which use variables of their own.
      const prose = read(page).replace(/```[\s\S]*?```/g, '');
      for (const [name] of prose.matchAll(/\b[A-Z]{3,}(?:_[A-Z]+)+\b/g))
        if (name !== 'API_KEY') expect(known, page).to.match(new RegExp(`\\b${name}\\b`));
    });

    it(`have only recipes that run on macOS as well, without SQL: ${page}`, () => {
      for (const [recipe] of read(page).matchAll(/```sh\n[\s\S]*?```/g))
        for (const [pattern, reason] of REFUSED) expect(recipe, reason).not.to.match(pattern);
    });
  }
});
