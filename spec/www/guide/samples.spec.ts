import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite } from '../../support/cleanup.ts';
import { run } from '../../support/command.ts';
import { examples, projectWith } from '../../support/examples.ts';
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
  // Without the imports rules of the project's folders, and outside of its repository.
  const { linter, formatter, javascript } = JSON.parse(readFileSync(join(projectFolder, 'biome.json'), 'utf8'));
  const files: Record<string, string> = {
    'package.json': '{"type": "module"}',
    'biome.json': JSON.stringify({ linter, formatter, javascript }),
  };
  for (const page of PAGES) {
    const blocks = readFileSync(join(projectFolder, page), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm);
    for (const [index, [, sample = '']] of [...blocks].entries()) {
      files[`${page}/${index + 1}/sample.ts`] = sample;
      const imported = sample.includes("'./handlers.ts'") && IMPORTED[page];
      if (imported) files[`${page}/${index + 1}/handlers.ts`] = examples(...imported, 'ts')[0] ?? '';
    }
  }
  const folder = await projectWith(files);
  const compilerOptions = { noEmit: true, declaration: false, rootDir: folder, types: ['node', 'mocha'] };
  const config = { extends: join(projectFolder, 'tsconfig.json'), compilerOptions, include: ['.'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
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
