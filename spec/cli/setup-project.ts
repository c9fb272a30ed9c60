import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from '../support/cleanup.ts';
import type { Ended } from '../support/command.ts';
import { outerPath } from '../support/old-node.ts';
import { projectFolder } from '../support/program.ts';

export const VERSION = '26.10.0';

/** Environment of a shell outside of npm scripts. */
export const shell = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_'))),
  PATH: outerPath,
};

/** A small project with the setup program, the npm scripts of the real project, and one dependency, `node`. */
export class SetupProject {
  readonly folder: string;
  constructor(folder: string) {
    this.folder = folder;
  }

  static async create({ engine = '>=99' } = {}): Promise<SetupProject> {
    const project = new SetupProject(await temporaryFolder());
    await mkdir(project.path('main/cli'), { recursive: true });
    await cp(join(projectFolder, 'main/cli/setup.js'), project.path('main/cli/setup.js'));
    const dependencies = { node: VERSION };
    const { scripts } = JSON.parse(await readFile(join(projectFolder, 'package.json'), 'utf8'));
    const manifest = { type: 'module', scripts, dependencies, engines: { node: engine } };
    await project.write('package.json', JSON.stringify(manifest));
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

  /** Creates the files that npm would install. @param node shell script in place of Node.js; none if empty */
  async install(node = 'echo v26.10.0'): Promise<this> {
    await this.write('node_modules/.package-lock.json', lockfile({ 'node_modules/node': { version: VERSION } }));
    await this.write('node_modules/node/package.json', '{}');
    if (node === '') return this;
    await this.write('node_modules/node/bin/node', `#!/bin/sh\n${node}\n`);
    await chmod(this.path('node_modules/node/bin/node'), 0o755);
    await mkdir(this.path('node_modules/.bin'), { recursive: true });
    await rm(this.path('node_modules/.bin/node'), { force: true });
    await symlink('../node/bin/node', this.path('node_modules/.bin/node'));
    return this;
  }

  /** Replaces npm by a program that records its arguments, and then runs `code`. */
  async fakeNpm(code: string): Promise<Record<string, string>> {
    const record = `require('fs').appendFileSync(${JSON.stringify(this.path('calls'))}, process.argv.slice(2).join(' ') + '\\n');`;
    await this.write('fake/package.json', '{"type": "commonjs"}');
    await this.write('fake/npm-cli.js', `${record}\nconst [command] = process.argv.slice(2);\n${code}`);
    return { npm_execpath: this.path('fake/npm-cli.js') };
  }

  async calls(): Promise<string[]> {
    const text = await readFile(this.path('calls'), 'utf8').catch(() => '');
    return text.split('\n').slice(0, -1);
  }

  /** Runs the program to its end. @param within command that runs it */
  run(env: Record<string, string> = {}, args: readonly string[] = [], within: readonly string[] = []): Promise<Ended> {
    return this.#end([...within, process.execPath, 'main/cli/setup.js', ...args], env);
  }

  /** Runs the program with an empty npm cache and a registry at `port`, where nothing responds. */
  async runUnreachable(port: number): Promise<Ended> {
    const registry = `http://127.0.0.1:${port}`;
    return this.run({ npm_config_registry: registry, npm_config_cache: await temporaryFolder() });
  }

  /** Runs one of the project's npm scripts to its end. */
  npm(script: string, env: Record<string, string> = {}): Promise<Ended> {
    return this.#end(['npm', 'run', '--silent', script], env);
  }

  #end([command = '', ...args]: string[], env: Record<string, string>): Promise<Ended> {
    const options = { cwd: this.folder, env: { ...shell, ...env } };
    return new Promise((resolve) => {
      execFile(command, args, options, (error, stdout, stderr) =>
        resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
      );
    });
  }
}

/** Packages in package-lock.json. npm leaves an optional package out if it is for another platform. */
const packages = { 'node_modules/node': { version: VERSION }, 'node_modules/other': { version: '1', optional: true } };

/** Returns the text of a lockfile with the given packages. */
export function lockfile(entries: object): string {
  return JSON.stringify({ lockfileVersion: 3, packages: entries });
}
