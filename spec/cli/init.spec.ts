import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';

const program = fileURLToPath(new URL('../../main/index.ts', import.meta.url));
const init = (cwd: string, ...args: string[]) => run(process.execPath, [program, 'init', ...args], { cwd });

describe('ticker-and-tasks init', () => {
  it('writes into a new folder, and into the working directory', async () => {
    const folder = await temporaryFolder();
    for (const args of [['new'], []]) expect(await init(folder, ...args)).to.include({ code: 0, stderr: '' });
    expect(readdirSync(join(folder, 'new'))).to.have.members(['handlers.ts', 'handlers.test.ts', 'tsconfig.json']);
    expect(readdirSync(folder)).to.include.members(readdirSync(join(folder, 'new')));
  });

  it('refuses, with one line and without a change, to overwrite a file, and to write into a CommonJS package', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'tsconfig.json'), '{}');
    const refused = await init(folder);
    expect(refused).to.deep.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.match(/^\S+tsconfig\.json exists: move it, or name another folder\n$/);
    expect(readdirSync(folder)).to.deep.equal(['tsconfig.json']);
    expect(readFileSync(join(folder, 'tsconfig.json'), 'utf8')).to.equal('{}');
    const commonjs = await temporaryFolder();
    await writeFile(join(commonjs, 'package.json'), '{}');
    for (const args of [[], ['new']])
      expect((await init(commonjs, ...args)).stderr).to.equal(
        'handlers.ts is an ES module: run "npm pkg set type=module" first\n',
      );
    expect(readdirSync(commonjs)).to.deep.equal(['package.json']);
    expect((await init(commonjs, 'a', 'b')).stderr).to.match(/^too many arguments: name one folder\n\n/);
  });
});
