import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { run } from '../../support/command.ts';
import { examples } from '../../support/examples.ts';
import { projectFolder } from '../../support/program.ts';

const guide = readdirSync(join(projectFolder, 'www/guide')).filter((name) => name.endsWith('.md'));
const PAGES = ['README.md', ...guide.map((name) => `www/guide/${name}`)];
/** Modules that samples import as `./handlers.ts`: page and heading. */
const IMPORTED: Readonly<Record<string, [page: string, heading: string]>> = {
  'www/guide/clients.md': ['www/guide/embedding.md', 'Your own actions'],
  'www/guide/handlers.md': ['www/guide/handlers.md', 'A schema and a permanent error'],
};

/** Writes each TypeScript sample of README and guide into a folder of its own, in a project with the package. */
async function writeSamples(): Promise<string> {
  const folder = await temporaryFolder();
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const compilerOptions = { noEmit: true, declaration: false, rootDir: folder, types: ['node', 'mocha'] };
  write('package.json', '{"type": "module"}');
  write(
    'tsconfig.json',
    JSON.stringify({ extends: join(projectFolder, 'tsconfig.json'), compilerOptions, include: ['.'] }),
  );
  // Without the imports rules of the project's folders, and outside of its repository.
  const { linter, formatter, javascript } = JSON.parse(readFileSync(join(projectFolder, 'biome.json'), 'utf8'));
  write('biome.json', JSON.stringify({ linter, formatter, javascript }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(projectFolder, join(folder, 'node_modules/ticker-and-tasks'));
  symlinkSync(join(projectFolder, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  for (const page of PAGES) {
    const blocks = readFileSync(join(projectFolder, page), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm);
    for (const [index, [, sample = '']] of [...blocks].entries()) {
      const place = `${page}/${index + 1}`;
      write(join(place, 'sample.ts'), sample);
      const imported = sample.includes("'./handlers.ts'") && IMPORTED[page];
      if (imported) write(join(place, 'handlers.ts'), examples(...imported, 'ts')[0] ?? '');
    }
  }
  return folder;
}

describe('the TypeScript samples of README and guide', () => {
  const folder = onceForSuite(writeSamples);
  const program = (name: string, args: string[]) =>
    run(join(projectFolder, 'node_modules/.bin', name), args, { cwd: folder() });

  it('pass the type checker with the strict settings of the project', async () => {
    const { code, stdout } = await program('tsc', ['-p', '.']);
    expect(code, stdout).to.equal(0);
  });

  it('pass the linter of the project', async () => {
    const { code, stdout, stderr } = await program('biome', ['check', '--error-on-warnings', 'README.md', 'www']);
    expect(code, stdout + stderr).to.equal(0);
  });
});
