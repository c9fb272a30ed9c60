import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import type { Ended } from '../support/command.ts';
import { outerPath } from '../support/old-node.ts';
import { projectFolder } from '../support/program.ts';

const VERSION = '26.10.0';

/** Environment of a shell outside of npm scripts. */
const shell = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))),
  PATH: outerPath,
};

/** A small project with the setup program and one dependency, `node`. */
class SetupProject {
  readonly folder: string;
  constructor(folder: string) {
    this.folder = folder;
  }

  static async create(): Promise<SetupProject> {
    const project = new SetupProject(await temporaryFolder());
    await mkdir(project.path('main/cli'), { recursive: true });
    await cp(join(projectFolder, 'main/cli/setup.js'), project.path('main/cli/setup.js'));
    const dependencies = { node: VERSION };
    await project.write('package.json', JSON.stringify({ type: 'module', dependencies }));
    await project.write('package-lock.json', lockfile({ '': { dependencies }, ...packages }));
    return project;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  async write(name: string, text: string): Promise<void> {
    await mkdir(join(this.path(name), '..'), { recursive: true });
    await writeFile(this.path(name), text);
  }

  /** Creates the files that npm would install. */
  async install(): Promise<this> {
    await this.write('node_modules/.package-lock.json', lockfile({ 'node_modules/node': { version: VERSION } }));
    await this.write('node_modules/node/package.json', '{}');
    return this;
  }

  /** Replaces npm by a program that records its arguments, and then runs `code`. */
  async fakeNpm(code: string): Promise<Record<string, string>> {
    const record = `require('fs').appendFileSync(${JSON.stringify(this.path('calls'))}, process.argv.slice(2).join(' ') + '\\n');`;
    await this.write('fake/package.json', '{"type": "commonjs"}');
    await this.write('fake/npm-cli.js', `${record}\n${code}`);
    return { npm_execpath: this.path('fake/npm-cli.js') };
  }

  async calls(): Promise<string[]> {
    const text = await readFile(this.path('calls'), 'utf8').catch(() => '');
    return text.split('\n').slice(0, -1);
  }

  /** Runs the program to its end. */
  run(env: Record<string, string>, args: readonly string[] = []): Promise<Ended> {
    const options = { cwd: this.folder, env: { ...shell, ...env } };
    return new Promise((resolve) => {
      execFile(process.execPath, ['main/cli/setup.js', ...args], options, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    });
  }
}

/** Packages in package-lock.json. npm leaves an optional package out if it is for another platform. */
const packages = { 'node_modules/node': { version: VERSION }, 'node_modules/other': { version: '1', optional: true } };

/** Returns the text of a lockfile with the given packages. */
function lockfile(entries: object): string {
  return JSON.stringify({ lockfileVersion: 3, packages: entries });
}

const INSTALLING = 'Installing the dependencies …\n';

describe('npm run setup', () => {
  it('is silent and does not run npm if everything is installed', async () => {
    const project = await (await SetupProject.create()).install();
    const env = await project.fakeNpm('');
    expect(await project.run(env)).to.deep.equal({ code: 0, stdout: '', stderr: '' });
    expect(await project.calls()).to.deep.equal([]);
  });

  it('installs again if package-lock.json or package.json has changed, or a package is missing', async () => {
    for (const change of [
      (project: SetupProject) =>
        project.write(
          'package-lock.json',
          lockfile({ '': { dependencies: { node: VERSION } }, 'node_modules/node': { version: '27' } }),
        ),
      (project: SetupProject) =>
        project.write('package.json', '{"type":"module","dependencies":{"node":"26","koa":"3"},"engines":{}}'),
      (project: SetupProject) => rm(project.path('node_modules/node/package.json')),
      (project: SetupProject) => rm(project.path('node_modules/.package-lock.json')),
    ]) {
      const project = await (await SetupProject.create()).install();
      const env = await project.fakeNpm('');
      await change(project);
      expect(await project.run(env, ['--ignore-scripts'])).to.deep.equal({ code: 0, stdout: '', stderr: INSTALLING });
      expect(await project.calls())
        .to.have.length(1)
        .and.property('0')
        .that.matches(/^install --include=dev --no-save --prefer-offline .*--ignore-scripts$/);
    }
  });

  it('shows npm’s own errors, and has its exit code', async () => {
    const project = await SetupProject.create();
    const env = await project.fakeNpm("console.error('npm error code ENOSPC'); process.exitCode = 7;");
    const stderr = `${INSTALLING}npm error code ENOSPC\n`;
    expect(await project.run(env)).to.deep.equal({ code: 7, stdout: '', stderr });
  });

  it('says where npm comes from if there is none', async () => {
    const project = await SetupProject.create();
    const stderr = `${INSTALLING}npm is needed (ENOENT): install it with Node from https://nodejs.org\n`;
    expect(await project.run({ PATH: project.folder })).to.deep.equal({ code: 1, stdout: '', stderr });
  });
});
