import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { examples } from '../support/examples.ts';
import { oldNode, outerPath } from '../support/old-node.ts';
import { freshSettings, type Program, post, projectFolder, untilTask, watch } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';

/** Files and folders that the build of the archive reads, and documents. */
const SOURCES = ['main', 'workers', 'db', 'www', 'package.json', 'package-lock.json', 'tsconfig.json', '.npmrc'];
const DOCUMENTS = ['README.md', 'LICENSE', 'ARCHITECTURE.md', 'CHANGELOG.md'];

/** Environment of a shell outside of npm scripts, with a Node that is new enough. */
const shell = { ...process.env, PATH: dirname(process.execPath) + delimiter + outerPath };

const tsc = join(projectFolder, 'node_modules/typescript/bin/tsc');

/** Packs the package, and installs the archive in a project that has the handlers module of the guide. */
async function install() {
  const root = await temporaryFolder();
  const [clone, project] = [join(root, 'clone'), join(root, 'project')];
  await mkdir(project);
  // Without this file, npm installs into the next parent folder that has one.
  await writeFile(join(project, 'package.json'), '{"type": "module"}');
  for (const each of [...SOURCES, ...DOCUMENTS])
    await cp(join(projectFolder, each), join(clone, each), { recursive: true });
  // A leftover of an older build, which must not get into the archive.
  await mkdir(join(clone, 'dist', 'main'), { recursive: true });
  await writeFile(join(clone, 'dist', 'main', 'removed.js'), '');
  const packing = ['pack', '--json', '--silent', '--pack-destination', root];
  const packed = await run('npm', packing, { cwd: clone, env: shell });
  const [archive] = JSON.parse(packed.stdout.slice(packed.stdout.lastIndexOf('\n[') + 1));
  const installing = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(root, archive.filename)];
  expect(await run('npm', installing, { cwd: project, env: shell })).to.include({ code: 0 });
  const [module = ''] = examples('www/guide/embedding.md', 'Your own actions', 'ts');
  expect(module.trimEnd().split('\n')).to.have.length.of.at.most(20);
  await writeFile(join(project, 'handlers.ts'), module);
  return { project, archive };
}

describe('the installed package', () => {
  const packed = onceForSuite(install);
  const inProject = (...path: string[]) => join(packed().project, ...path);
  const installed = (...path: string[]) => inProject('node_modules', 'ticker-and-tasks', ...path);
  const options = async (env?: Record<string, string>) => ({
    cwd: packed().project,
    env: { ...shell, ...(await freshSettings()), ...env },
  });

  const launch = async (command: string, args: string[], env?: Record<string, string>) =>
    watch(spawn(command, args, await options(env)));

  const ended = async (command: string, ...args: string[]) => run(command, args, await options());

  async function urlOf(program: Program, service: string): Promise<string> {
    return `http://127.0.0.1:${(await program.logged((line) => line.service === service)).port}`;
  }

  async function outcome(program: Program, action: string, data: object): Promise<unknown> {
    const tasks = await urlOf(program, 'tasks');
    const { body } = await post(`${tasks}/tasks`, { action, data });
    return JSON.parse((await untilTask(tasks, body.id)).result).output;
  }

  it('holds what runs and its declarations, without sources, source maps, specs and leftovers, and needs no development dependency', () => {
    const { archive } = packed();
    const paths: string[] = archive.files.map(({ path }: { path: string }) => path);
    const vendored = ['uplot.js', 'uplot.LICENSE.txt'].map((name) => `dist/www/shared/vendor/${name}`);
    const own = ['main/index.js', 'main/embed.d.ts', 'www/client.d.ts', 'db/migrations/tasks/003-tasks.sql'];
    const built = own.map((name) => `dist/${name}`);
    expect(paths).to.include.members(['README.md', 'LICENSE', 'package.json', ...built, ...vendored]);
    const unwanted =
      /^(?!dist\/|www\/guide\/[\w-]+\.md$|[A-Z]+(\.md)?$|package\.json$)|(?<!\.d|www\/init\/[\w.]+)\.ts$|\.map$|\.spec\.|removed/;
    expect(paths.filter((path) => unwanted.test(path))).to.deep.equal([]);
    expect(archive.size).to.be.below(2_000_000);
    expect(archive.unpackedSize).to.be.below(2_900_000);
    const { devDependencies } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'));
    const present = Object.keys(devDependencies).filter((name) => existsSync(inProject('node_modules', name)));
    expect(present).to.deep.equal([]);
  });

  it('starts both services as a command and with npx, and stops them in order on SIGTERM', async () => {
    for (const [command = '', ...args] of [['node_modules/.bin/ticker-and-tasks'], ['npx', 'ticker-and-tasks']]) {
      const program = await launch(command, args);
      expect((await post(`${await urlOf(program, 'ticker')}/auth/token`, {})).status).to.equal(400);
      expect(await outcome(program, 'uppercase', { text: 'hello' })).to.equal('HELLO');
      const end = await program.end();
      if (command !== 'npx') expect(end).to.deep.equal({ code: 0, signal: null });
      expect(program.lines.at(-1)).to.include({ msg: 'stopped' });
    }
  });

  it('runs in a program as the guide says, which ends once the services have stopped', async () => {
    const [example = ''] = examples('www/guide/embedding.md', 'Start and stop', 'js');
    await writeFile(inProject('program.mjs'), example.replaceAll(/_PORT: \d+/g, '_PORT: 0'));
    const { code, stdout, stderr } = await ended(process.execPath, 'program.mjs');
    expect(code, stderr).to.equal(0);
    expect(stdout).to.include('HELLO');
  });

  it('checks the handlers module of the guide, runs it as a command and in a program, and has a client for it', async () => {
    const checked = await ended('npx', 'ticker-and-tasks', 'handlers', 'check', './handlers.ts');
    expect(checked, checked.stderr).to.include({ code: 0, stdout: 'words\nsize (schema, timeoutMs 5000)\n' });
    const own = `import { start } from 'ticker-and-tasks';
      const services = await start({ handlers: './handlers.ts', settings: process.env });
      process.once('SIGTERM', () => services.stop());`;
    await writeFile(inProject('own.mjs'), own);
    const [example = ''] = examples('www/guide/clients.md', 'Tasks', 'ts');
    for (const program of [
      await launch('node_modules/.bin/ticker-and-tasks', [], { TASK_HANDLERS: './handlers.ts' }),
      await launch(process.execPath, ['own.mjs']),
    ]) {
      const [tasks, admin] = [await urlOf(program, 'tasks'), await urlOf(program, 'admin')];
      expect(await outcome(program, 'words', { text: 'three short words' })).to.equal(3);
      expect(await outcome(program, 'size', { url: `${admin}/healthz` })).to.equal('{"status":"ok"}\n'.length);
      const refused = await post(`${tasks}/tasks`, { action: 'size', data: { url: 1 } });
      expect(refused.body).to.include({ error: 'invalid data', path: '/url' });
      const { body } = await post(`${tasks}/tasks`, { action: 'size', data: { url: `${admin}/none` } });
      expect((await untilTask(tasks, body.id, 'failed')).reason).to.match(/ answered 404$/);
      await writeFile(inProject('call.ts'), example.replace('http://localhost:8080', tasks));
      const called = await ended(process.execPath, 'call.ts');
      expect(called, called.stderr).to.include({ code: 0, stdout: '3\n' });
      expect(await program.end()).to.deep.equal({ code: 0, signal: null });
    }
  });

  it('has types that a strict project accepts', async () => {
    const strict = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, types: [] };
    const compilerOptions = { ...strict, module: 'nodenext', target: 'es2024', allowImportingTsExtensions: true };
    const tsconfig = { compilerOptions, files: ['typed.ts', 'handlers.ts', 'call.ts', 'wrong.ts'] };
    await writeFile(inProject('tsconfig.json'), JSON.stringify(tsconfig));
    const [example = ''] = examples('www/guide/embedding.md', 'Types', 'ts');
    const [call = ''] = examples('www/guide/clients.md', 'Tasks', 'ts');
    const wrong = `${example}\n// @ts-expect-error\nawait start({ symbols: 'BTC-USD' });\n`;
    await writeFile(inProject('typed.ts'), `${wrong}// @ts-expect-error\nawait services.stop(1);\n`);
    const misnamed = call.replace("submit('words'", "submit('word'");
    await writeFile(inProject('wrong.ts'), misnamed.replace('const task =', '// @ts-expect-error\nconst task ='));
    const compiled = await ended(process.execPath, tsc, '-p', '.');
    expect(compiled.code, compiled.stdout).to.equal(0);
  });

  it('writes a handlers module, its test and a tsconfig.json that accept each other', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'node_modules'));
    await symlink(installed(), join(folder, 'node_modules/ticker-and-tasks'));
    // What the command asks the user to install.
    await symlink(join(projectFolder, 'node_modules/@types'), join(folder, 'node_modules/@types'));
    const command = (...args: string[]) => run(process.execPath, args, { cwd: folder, env: shell });
    const written = await command(installed('dist/main/index.js'), 'init');
    expect(written.stdout, written.stderr).to.match(/^wrote handlers\.ts, handlers\.test\.ts, tsconfig\.json\./);
    const compiled = await command(tsc, '-p', folder);
    expect(compiled.code, compiled.stdout).to.equal(0);
    const tested = await command('--test');
    expect(tested.code, tested.stdout).to.equal(0);
    expect(tested.stdout).to.include('pass 3');
    const checked = await command(installed('dist/main/index.js'), 'handlers', 'check', './handlers.ts');
    expect(checked.stdout, checked.stderr).to.match(/^greet\ncount \(schema, /);
  });

  const node = oldNode() ?? '';
  describeWith(node === '' ? 'no Node older than 24.15 on the path' : undefined, 'under an old Node', () => {
    it('fails with one line that names the Node that is needed, as a command and in a program', async () => {
      const line = /^Node 24\.15 or newer is needed, this is \S+: install it from \S+\n$/;
      const failed = await ended(node, installed('dist/main/index.js'));
      expect(failed).to.include({ code: 1, stdout: '' });
      expect(failed.stderr).to.match(line);
      const script = `import { start } from 'ticker-and-tasks';\nawait start().catch(({ message }) => console.error(message));`;
      await writeFile(inProject('old.mjs'), script);
      expect((await ended(node, 'old.mjs')).stderr).to.match(line);
    });
  });
});
