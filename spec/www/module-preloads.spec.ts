import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { addModulePreloads } from '../../www/module-preloads.ts';
import { temporaryFolder } from '../support/cleanup.ts';

const PAGE = '<head>\n  <script type="module" src="/app.js"></script>\n</head>\n';

describe('the modulepreload links of a page', () => {
  it('name each module that the page loads at its start, once', async () => {
    const folder = await temporaryFolder();
    const fileOf = (path: string) => join(folder, path.replaceAll('/', '_'));
    const modules = {
      '/app.js': `import { a } from './a.js';\nimport {\n  b,\n} from '../shared/b.js';\nimport '/vendor/c.js';\n`,
      '/a.js': `import { b } from '../shared/b.js';\nexport * from './d.js';\nexport function text() {\n  return 'import';\n}\nimport './a.js';\n`,
      '/shared/b.js': `import './own.js';\nconst later = () => import('./later.js');\n`,
      '/shared/own.js': '',
      '/vendor/c.js': '',
      '/d.js': `import './app.js';\n`,
    };
    for (const [path, text] of Object.entries(modules)) writeFileSync(fileOf(path), text);
    const page = addModulePreloads(PAGE, fileOf);
    const hrefs = [...page.matchAll(/<link rel="modulepreload" href="(.*)">/g)].map(([, href]) => href);
    expect(hrefs).to.have.members(Object.keys(modules));
    expect(page.replace(/ *<link.*\n/g, '')).to.equal(PAGE);
  });

  it('are refused for a page without a module script and for a module that does not exist', () => {
    expect(() => addModulePreloads('<p></p>', String)).to.throw('no module script');
    expect(() => addModulePreloads(PAGE, () => '/nowhere/app.js')).to.throw('ENOENT');
  });
});
