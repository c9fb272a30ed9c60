import { mkdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { outerPath } from '../support/old-node.ts';
import { projectFolder } from '../support/program.ts';

/** Environment of a shell outside of npm scripts. */
const shell = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))),
  PATH: outerPath,
};

const INSTALLING = 'Installing the dependencies …\n';

/** Creates a small project with the setup program, and an imitated npm that runs `code`. */
async function createProject(code = '') {
  const folder = await temporaryFolder();
  const path = (name: string) => join(folder, name);
  const write = async (name: string, text: string) => {
    await mkdir(dirname(path(name)), { recursive: true });
    await writeFile(path(name), text);
  };
  await write('main/cli/setup.js', await readFile(join(projectFolder, 'main/cli/setup.js'), 'utf8'));
  await write('package.json', '{"type":"module"}');
  await write('package-lock.json', '{}');
  const record = `require('fs').appendFileSync(${JSON.stringify(path('calls'))}, process.argv.slice(2).join(' ') + '\\n');`;
  await write('fake/package.json', '{"type": "commonjs"}');
  await write('fake/npm-cli.js', `${record}\n${code}`);
  // What npm would install.
  await write('node_modules/typescript/package.json', '{}');
  await write('node_modules/.package-lock.json', '{}');
  return {
    path,
    calls: () => readFile(path('calls'), 'utf8').catch(() => ''),
    setup: (args: string[] = [], env: Record<string, string> = { npm_execpath: path('fake/npm-cli.js') }) =>
      run(process.execPath, ['main/cli/setup.js', ...args], { cwd: folder, env: { ...shell, ...env } }),
  };
}

type Project = Awaited<ReturnType<typeof createProject>>;

describe('npm run setup', () => {
  it('is silent and does not run npm if everything is installed', async () => {
    const { setup, calls } = await createProject();
    expect(await setup()).to.deep.equal({ code: 0, stdout: '', stderr: '' });
    expect(await calls()).to.equal('');
  });

  const soon = () => new Date(Date.now() + 1000);
  const remove = ({ path }: Project) => rm(path('node_modules/.package-lock.json'));
  const changes: Record<string, (project: Project) => Promise<void>> = {
    'package-lock.json has changed': ({ path }) => utimes(path('package-lock.json'), soon(), soon()),
    'package.json has changed': ({ path }) => utimes(path('package.json'), soon(), soon()),
    'development dependencies are missing': ({ path }) => rm(path('node_modules/typescript/package.json')),
    'nothing is installed': remove,
  };
  for (const [title, change] of Object.entries(changes)) {
    it(`runs npm install if ${title}`, async () => {
      const project = await createProject();
      await change(project);
      expect(await project.setup(['--ignore-scripts'])).to.deep.equal({ code: 0, stdout: '', stderr: INSTALLING });
      const calls = await project.calls();
      expect(calls).to.match(/^install --include=dev --no-save --prefer-offline .*--ignore-scripts\n$/);
    });
  }

  it('prints the errors of npm, and ends with its exit code, or says how to install npm if it is missing', async () => {
    const project = await createProject("console.error('npm error code ENOSPC'); process.exitCode = 7;");
    await remove(project);
    const stderr = `${INSTALLING}npm error code ENOSPC\n`;
    expect(await project.setup()).to.deep.equal({ code: 7, stdout: '', stderr });
    const lacking = `${INSTALLING}npm is needed (ENOENT): install it with Node from https://nodejs.org\n`;
    const ended = await project.setup([], { PATH: project.path('.') });
    expect(ended).to.deep.equal({ code: 1, stdout: '', stderr: lacking });
  });
});
