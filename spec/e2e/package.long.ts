import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { examples } from '../support/examples.ts';
import { oldNode, outerPath } from '../support/old-node.ts';
import { freshSettings, type Program, post, projectFolder, untilTask, watch } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';

/** Files and folders that the build of the archive reads. */
const SOURCES = ['main', 'workers', 'db', 'www', 'package.json', 'package-lock.json', 'tsconfig.json', '.npmrc'];
const DOCUMENTS = ['README.md', 'LICENSE', 'ARCHITECTURE.md', 'CHANGELOG.md'];
const OFFLINE = ['--prefer-offline', '--no-audit', '--no-fund'];
const MAX_ARCHIVE_BYTES = 2_000_000;
const MAX_UNPACKED_BYTES = 2_900_000;

/** Environment of a shell outside of npm scripts, with a Node that is new enough. */
const shell = { ...process.env, PATH: dirname(process.execPath) + delimiter + outerPath };

describe('the installed package', () => {
  let root: string;
  /** Folder of a project that has installed the archive. */
  let project: string;
  let archive: { filename: string; size: number; unpackedSize: number; files: { path: string }[] };

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'ticker-spec-'));
    const clone = join(root, 'clone');
    project = join(root, 'project');
    await mkdir(project);
    // Without this file, npm installs into the next parent folder that has one.
    await writeFile(join(project, 'package.json'), '{"type": "module"}');
    for (const each of [...SOURCES, ...DOCUMENTS]) {
      await cp(join(projectFolder, each), join(clone, each), { recursive: true });
    }
    // A leftover of an older build, which must not get into the archive.
    await mkdir(join(clone, 'dist', 'main'), { recursive: true });
    await writeFile(join(clone, 'dist', 'main', 'removed.js'), '');
    const packing = ['pack', '--json', '--silent', '--pack-destination', root];
    const packed = await run('npm', packing, { cwd: clone, env: shell });
    [archive] = JSON.parse(packed.stdout.slice(packed.stdout.lastIndexOf('\n[') + 1));
    const installing = ['install', ...OFFLINE, join(root, archive.filename)];
    expect(await run('npm', installing, { cwd: project, env: shell })).to.include({ code: 0 });
    const [module = ''] = examples('www/guide/embedding.md', 'Your own actions', 'ts');
    expect(module.trimEnd().split('\n')).to.have.length.of.at.most(20);
    await writeFile(join(project, 'handlers.ts'), module);
  });

  after(async () => {
    if (root !== undefined) await rm(root, { recursive: true, force: true });
  });

  const installed = (...path: string[]) => join(project, 'node_modules', 'ticker-and-tasks', ...path);

  /** Starts a command in the project, with fresh settings. */
  async function launch(command: string, args: string[], env: Record<string, string> = {}): Promise<Program> {
    return watch(spawn(command, args, { cwd: project, env: { ...shell, ...(await freshSettings()), ...env } }));
  }

  /** Runs a command to its end. */
  async function output(command: string, args: string[], env?: Record<string, string>) {
    const program = await launch(command, args, env);
    const { code } = await program.exited;
    return { code, output: program.output(), errors: program.errors() };
  }

  /** Returns a listener's address. */
  async function urlOf(program: Program, service: string): Promise<string> {
    return `http://127.0.0.1:${(await program.logged((line) => line.service === service)).port}`;
  }

  /** Submits a task and returns its output. */
  async function outcome(program: Program, action: string, data: object): Promise<unknown> {
    const tasks = await urlOf(program, 'tasks');
    const { body } = await post(`${tasks}/tasks`, { action, data });
    return JSON.parse((await untilTask(tasks, body.id)).result).output;
  }

  /** Uses both services of a running program, and stops it. */
  async function useAndStop(program: Program) {
    expect((await post(`${await urlOf(program, 'ticker')}/auth/token`, {})).status).to.equal(400);
    expect(await outcome(program, 'uppercase', { text: 'hello' })).to.equal('HELLO');
    const end = await program.end();
    expect(program.lines.at(-1)).to.include({ msg: 'stopped' });
    return end;
  }

  /** Submits tasks of the actions in the guide's handlers module. */
  async function useHandlers(program: Program): Promise<void> {
    const [tasks, admin] = [await urlOf(program, 'tasks'), await urlOf(program, 'admin')];
    expect(await outcome(program, 'words', { text: 'three short words' })).to.equal(3);
    expect(await outcome(program, 'size', { url: `${admin}/healthz` })).to.equal('{"status":"ok"}\n'.length);
    const refused = await post(`${tasks}/tasks`, { action: 'size', data: { url: 1 } });
    expect(refused.body).to.include({ error: 'invalid data', path: '/url' });
    const { body } = await post(`${tasks}/tasks`, { action: 'size', data: { url: `${admin}/none` } });
    expect((await untilTask(tasks, body.id, 'failed')).reason).to.match(/ answered 404$/);
  }

  it('holds what runs and its declarations, without sources, source maps, specs and leftovers, and needs no development dependency', () => {
    const paths = archive.files.map(({ path }) => path);
    const vendored = ['uplot.js', 'uplot.LICENSE.txt'].map((name) => `dist/www/shared/vendor/${name}`);
    const own = ['main/index.js', 'main/embed.d.ts', 'www/client.d.ts', 'db/migrations/tasks/003-tasks.sql'];
    const built = own.map((name) => `dist/${name}`);
    expect(paths).to.include.members(['README.md', 'LICENSE', 'package.json', ...built, ...vendored]);
    const unwanted =
      /^(?!dist\/|www\/guide\/[\w-]+\.md$|[A-Z]+(\.md)?$|package\.json$)|(?<!\.d|www\/init\/[\w.]+)\.ts$|\.map$|\.spec\.|removed/;
    expect(paths.filter((path) => unwanted.test(path))).to.deep.equal([]);
    expect(archive.size).to.be.below(MAX_ARCHIVE_BYTES);
    expect(archive.unpackedSize).to.be.below(MAX_UNPACKED_BYTES);
    const { devDependencies } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'));
    const present = Object.keys(devDependencies).filter((name) => existsSync(join(project, 'node_modules', name)));
    expect(present).to.deep.equal([]);
  });

  it('starts both services as a command and with npx, and stops them in order on SIGTERM', async () => {
    const command = await launch('node_modules/.bin/ticker-and-tasks', []);
    expect(await useAndStop(command)).to.deep.equal({ code: 0, signal: null });
    await useAndStop(await launch('npx', ['ticker-and-tasks']));
  });

  it('runs in a program as the guide says, which ends once the services have stopped', async () => {
    const [example = ''] = examples('www/guide/embedding.md', 'Start and stop', 'js');
    await writeFile(join(project, 'program.mjs'), example.replaceAll(/_PORT: \d+/g, '_PORT: 0'));
    const ended = await output(process.execPath, ['program.mjs']);
    expect(ended.code, ended.errors).to.equal(0);
    expect(ended.output).to.include('HELLO');
  });

  it('checks the handlers module of the guide, runs it as a command and in a program, and has a client for it', async () => {
    const checked = await output('npx', ['ticker-and-tasks', 'handlers', 'check', './handlers.ts']);
    expect(checked.code, checked.errors).to.equal(0);
    expect(checked.output).to.equal('words\nsize (schema, timeoutMs 5000)\n');
    await writeFile(
      join(project, 'own.mjs'),
      `import { start } from 'ticker-and-tasks';
      const services = await start({ handlers: './handlers.ts', settings: process.env });
      process.once('SIGTERM', () => services.stop());`,
    );
    const [example = ''] = examples('www/guide/clients.md', 'Tasks', 'ts');
    for (const program of [
      await launch('node_modules/.bin/ticker-and-tasks', [], { TASK_HANDLERS: './handlers.ts' }),
      await launch(process.execPath, ['own.mjs']),
    ]) {
      await useHandlers(program);
      const url = await urlOf(program, 'tasks');
      await writeFile(join(project, 'call.ts'), example.replace('http://localhost:8080', url));
      const called = await output(process.execPath, ['call.ts']);
      expect(called, called.errors).to.include({ code: 0, output: '3\n' });
      expect(await program.end()).to.deep.equal({ code: 0, signal: null });
    }
  });

  it('has types that a strict project accepts', async () => {
    const strict = { strict: true, exactOptionalPropertyTypes: true, noEmit: true, types: [] };
    const compilerOptions = { ...strict, module: 'nodenext', target: 'es2024', allowImportingTsExtensions: true };
    const tsconfig = { compilerOptions, files: ['typed.ts', 'handlers.ts', 'call.ts', 'wrong.ts'] };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify(tsconfig));
    const [example = ''] = examples('www/guide/embedding.md', 'Types', 'ts');
    const [call = ''] = examples('www/guide/clients.md', 'Tasks', 'ts');
    const wrong = `${example}\n// @ts-expect-error\nawait start({ symbols: 'BTC-USD' });\n`;
    await writeFile(join(project, 'typed.ts'), `${wrong}// @ts-expect-error\nawait services.stop(1);\n`);
    const misnamed = call.replace("submit('words'", "submit('word'");
    await writeFile(join(project, 'wrong.ts'), misnamed.replace('const task =', '// @ts-expect-error\nconst task ='));
    const compiler = join(projectFolder, 'node_modules/typescript/bin/tsc');
    const compiled = await output(process.execPath, [compiler, '-p', project]);
    expect(compiled.code, compiled.output).to.equal(0);
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
    const compiled = await command(join(projectFolder, 'node_modules/typescript/bin/tsc'), '-p', folder);
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
      const failed = await output(node, [installed('dist/main/index.js')]);
      expect(failed).to.include({ code: 1, output: '' });
      expect(failed.errors).to.match(line);
      const script = `import { start } from 'ticker-and-tasks';\nawait start().catch(({ message }) => console.error(message));`;
      await writeFile(join(project, 'old.mjs'), script);
      expect((await output(node, ['old.mjs'])).errors).to.match(line);
    });
  });
});
