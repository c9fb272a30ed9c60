import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect } from 'chai';
import { projectFolder } from '../../support/program.ts';

const pages = ['README.md', ...globSync('www/guide/*.md', { cwd: projectFolder })];
const read = (page: string) => readFileSync(resolve(projectFolder, page), 'utf8');

/** Returns the anchors of all headings. */
function anchors(text: string): string[] {
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );
}

describe('the pages of the guide', () => {
  it('are reached from the README', () => {
    for (const page of pages.slice(1)) expect(read('README.md')).to.include(`](${page})`);
  });

  for (const page of pages) {
    it(`resolve in ${page}`, () => {
      for (const [link, path = '', anchor] of read(page).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)) {
        const target = path === '' ? resolve(projectFolder, page) : resolve(projectFolder, dirname(page), path);
        expect(existsSync(target), link).to.equal(true);
        if (anchor !== undefined) expect(anchors(read(target)), link).to.include(anchor);
      }
    });

    it(`tell in ${page} of scripts that package.json has`, () => {
      const { scripts } = JSON.parse(read('package.json'));
      for (const [, script = ''] of read(page).matchAll(/npm run (?:--silent )?([\w-]+)/g))
        expect(scripts).to.have.property(script);
    });

    it(`speak in ${page} of settings that there are`, () => {
      const ours = [
        'main/config.ts',
        'package.json',
        'compose.yaml',
        'spec/hostile/hostile.ts',
        'spec/soak/load.long.ts',
        'spec/faults/kill.long.ts',
        'spec/support/seed.ts',
      ];
      const known = `${ours.map((file) => read(join(projectFolder, file))).join()} API_KEY`;
      // Text without code blocks, which use variables of their own.
      const prose = read(page).replace(/```[\s\S]*?```/g, '');
      for (const [name] of prose.matchAll(/\b[A-Z]{3,}(?:_[A-Z]+)+\b/g))
        expect(known, page).to.match(new RegExp(`\\b${name}\\b`));
    });
  }
});
