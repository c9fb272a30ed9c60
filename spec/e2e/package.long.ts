import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { examples } from '../support/examples.ts';
import { oldNode, outerPath } from '../support/old-node.ts';
import { freshSettings, type Program, post, projectFolder, request, untilTask, watch } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';
import { describeWithPostgres, sharedSettings } from '../support/servers.ts';
import { eventually } from '../support/until.ts';

const run = promisify(execFile);

/** Files and folders that the build of the archive reads. */
const SOURCES = ['main', 'workers', 'db', 'www', 'package.json', 'package-lock.json', 'tsconfig.json', '.npmrc'];
const DOCUMENTS = ['README.md', 'LICENSE', 'ARCHITECTURE.md', 'CHANGELOG.md'];
const OFFLINE = ['--prefer-offline', '--no-audit', '--no-fund'];
const MAX_ARCHIVE_BYTES = 2_000_000;
const MAX_UNPACKED_BYTES = 2_500_000;

/** Environment of a shell outside of npm scripts. */
const shell = { ...process.env, PATH: outerPath };

interface Archive {
  filename: string;
  size: number;
  files: { path: string; size: number; mode: number }[];
}

describe('the package', () => {
  let root: string;
  /** Folder of a project that has installed the archive. */
  let project: string;
  let archive: Archive;

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'ticker-spec-'));
    const clone = join(root, 'clone');
    project = join(root, 'project');
    await mkdir(project);
    // Without this file, npm installs into the next parent folder that has one.
    await writeFile(join(project, 'package.json'), '{}');
    for (const each of [...SOURCES, ...DOCUMENTS]) {
      await cp(join(projectFolder, each), join(clone, each), { recursive: true });
    }
    // A leftover of an older build, which must not get into the archive.
    await mkdir(join(clone, 'dist', 'main'), { recursive: true });
    await writeFile(join(clone, 'dist', 'main', 'removed.js'), '');
    const packed = await run('npm', ['pack', '--json', '--silent', '--pack-destination', root], {
      cwd: clone,
      env: shell,
    });
    [archive] = JSON.parse(packed.stdout.slice(packed.stdout.lastIndexOf('\n[') + 1));
    await run('npm', ['install', ...OFFLINE, join(root, archive.filename)], { cwd: project, env: shell });
  }).timeout(300_000);

  after(async () => {
    if (root !== undefined) await rm(root, { recursive: true, force: true });
  });

  const installed = (...path: string[]) => join(project, 'node_modules', 'ticker-and-tasks', ...path);

  /** Starts a command in a new folder inside of the project, with fresh settings. */
  async function launch(command: string, args: string[], { env = {}, cwd = project } = {}): Promise<Program> {
    const child: ChildProcess = spawn(command, args, { cwd, env: { ...shell, ...(await freshSettings()), ...env } });
    return watch(child);
  }

  /** Runs a command to its end. */
  async function output(command: string, args: string[], env?: Record<string, string>) {
    const program = await launch(command, args, env && { env });
    const { code } = await program.exited;
    return { code, output: program.output(), errors: program.errors() };
  }

  const portOf = async (program: Program, service: string) =>
    (await program.logged((line) => line.service === service)).port as number;

  /** Submits a task and returns its output. */
  async function outcome(port: number, action: string, data: object): Promise<unknown> {
    const tasks = `http://127.0.0.1:${port}/tasks`;
    const { body } = await post(tasks, { action, data });
    const stored = await eventually(
      () => request(`${tasks}/${body.id}`),
      (answer) => answer.body.status === 'completed',
    );
    return JSON.parse(stored.body.result).output;
  }

  /** Writes the handlers module of the guide into the project. */
  async function writeHandlers(): Promise<void> {
    const [module = ''] = examples('www/guide/embedding.md', 'Your own actions', 'ts');
    expect(module.trimEnd().split('\n')).to.have.length.of.at.most(20);
    await writeFile(join(project, 'handlers.ts'), module);
  }

  /** Submits tasks of the actions in the guide's handlers module. */
  async function useHandlers(tasks: number, admin: number): Promise<void> {
    expect(await outcome(tasks, 'words', { text: 'three short words' })).to.equal(3);
    const health = { url: `http://127.0.0.1:${admin}/healthz` };
    expect(await outcome(tasks, 'size', health)).to.equal('{"status":"ok"}\n'.length);
    const refused = await post(`http://127.0.0.1:${tasks}/tasks`, { action: 'size', data: { url: 1 } });
    expect(refused).to.deep.include({ status: 400 });
    expect(refused.body).to.include({ error: 'invalid data', path: '/url' });
    const { body } = await post(`http://127.0.0.1:${tasks}/tasks`, {
      action: 'size',
      data: { url: `http://127.0.0.1:${admin}/none` },
    });
    const failed = await untilTask(`http://127.0.0.1:${tasks}`, body.id, 'failed');
    expect(failed.reason).to.match(/ answered 404$/);
  }

  it('holds what runs and its declarations, without sources, source maps, specs and leftovers', () => {
    const paths = archive.files.map(({ path }) => path);
    expect(paths).to.include.members([
      'README.md',
      'LICENSE',
      'package.json',
      'dist/main/index.js',
      'dist/main/embed.d.ts',
    ]);
    for (const client of ['ticker', 'tasks']) {
      const vendor = `dist/www/${client}/vendor`;
      expect(paths).to.include.members([`${vendor}/uplot.js`, `${vendor}/uplot.LICENSE.txt`]);
    }
    expect(paths).to.include('dist/db/migrations/tasks/003-tasks.sql');
    const unwanted =
      /^(?!dist\/|www\/guide\/[\w-]+\.md$|[A-Z]+(\.md)?$|package\.json$)|(?<!\.d)\.ts$|\.map$|\.spec\.|removed/;
    expect(paths.filter((path) => unwanted.test(path))).to.deep.equal([]);
    expect(archive.size).to.be.below(MAX_ARCHIVE_BYTES);
    expect(archive.files.reduce((sum, { size }) => sum + size, 0)).to.be.below(MAX_UNPACKED_BYTES);
  });

  it('installs no package that only the development needs', () => {
    const { devDependencies } = JSON.parse(readFileSync(join(projectFolder, 'package.json'), 'utf8'));
    const present = Object.keys(devDependencies).filter((name) => existsSync(join(project, 'node_modules', name)));
    expect(present).to.deep.equal([]);
  });

  /** Uses both services of a running program, sends SIGTERM, and returns the end of the program after an orderly stop. */
  async function useAndStop(program: Program) {
    expect((await post(`http://127.0.0.1:${await portOf(program, 'ticker')}/auth/token`, {})).status).to.equal(400);
    expect(await outcome(await portOf(program, 'tasks'), 'uppercase', { text: 'hello' })).to.equal('HELLO');
    program.child.kill('SIGTERM');
    const end = await program.exited;
    expect(program.lines.at(-1)).to.include({ msg: 'stopped' });
    return end;
  }

  it('starts both services as a command, and ends with exit code 0 on SIGTERM', async () => {
    const program = await launch('node_modules/.bin/ticker-and-tasks', []);
    expect(await useAndStop(program)).to.deep.equal({ code: 0, signal: null });
  });

  it('starts both services with npx, and stops them in order when npx gets SIGTERM', async () => {
    await useAndStop(await launch('npx', ['ticker-and-tasks']));
  });

  it('runs the migration, and the commands for keys and backups', async () => {
    const DATA_DIR = join(await temporaryFolder(), 'data');
    const command = (...args: string[]) => output('npx', ['ticker-and-tasks', ...args], { DATA_DIR });
    const migrated = await command('migrate');
    expect(migrated, migrated.errors).to.include({ code: 0 });
    expect((await command('keys', 'create', '--user', 'alice')).output).to.match(/^[0-9a-f]{32}\n$/);
    expect((await command('keys', 'list')).output).to.include('alice');
    expect(await command('backup', join(DATA_DIR, 'copy'))).to.include({ code: 0 });
    expect(readdirSync(join(DATA_DIR, 'copy'))).to.include('auth.db');
    const unknown = await command('key');
    expect(unknown).to.include({ code: 1, output: '' });
    expect(unknown.errors).to.match(/^unknown command "key"\n\nticker-and-tasks /m);
  });

  it('runs in a program as the guide says, which ends once the services have stopped', async () => {
    const [example = ''] = examples('www/guide/embedding.md', 'Start and stop', 'js');
    await writeFile(join(project, 'program.mjs'), example.replaceAll(/_PORT: \d+/g, '_PORT: 0'));
    const program = await launch(process.execPath, ['program.mjs']);
    const { code } = await program.exited;
    expect(code, program.errors()).to.equal(0);
    expect(program.output()).to.include('HELLO');
  });

  it('runs the handlers module of the guide, and checks it before', async () => {
    await writeHandlers();
    const checked = await output('npx', ['ticker-and-tasks', 'handlers', 'check', './handlers.ts']);
    expect(checked.code, checked.errors).to.equal(0);
    expect(checked.output).to.equal('words\nsize (schema, timeoutMs 5000)\n');
    const program = await launch('node_modules/.bin/ticker-and-tasks', [], { env: { TASK_HANDLERS: './handlers.ts' } });
    await useHandlers(await portOf(program, 'tasks'), await portOf(program, 'admin'));
    program.child.kill('SIGTERM');
    expect((await program.exited).code).to.equal(0);
  });

  it('runs the handlers module in a program', async () => {
    await writeHandlers();
    const script = `
      import { start } from 'ticker-and-tasks';
      const handlers = new URL('./handlers.ts', import.meta.url);
      const services = await start({ handlers, settings: process.env });
      process.once('SIGTERM', () => services.stop());`;
    await writeFile(join(project, 'own.mjs'), script);
    const program = await launch(process.execPath, ['own.mjs']);
    await useHandlers(await portOf(program, 'tasks'), await portOf(program, 'admin'));
    program.child.kill('SIGTERM');
    expect(await program.exited).to.deep.equal({ code: 0, signal: null });
  });

  describeWithPostgres('as two nodes', () => {
    it('runs the handlers of one folder on both', async () => {
      await writeHandlers();
      const env = await sharedSettings();
      const start = () => launch('npx', ['ticker-and-tasks'], { env: { ...env, TASK_HANDLERS: './handlers.ts' } });
      const nodes = await Promise.all([start(), start()]);
      for (const node of nodes) await useHandlers(await portOf(node, 'tasks'), await portOf(node, 'admin'));
      for (const node of nodes) node.child.kill('SIGTERM');
      for (const node of nodes) await node.exited;
    });
  });

  it('has types that a strict project accepts', async () => {
    const options = {
      strict: true,
      module: 'nodenext',
      target: 'es2024',
      noEmit: true,
      exactOptionalPropertyTypes: true,
    };
    const tsconfig = { compilerOptions: { ...options, types: [] }, files: ['typed.ts', 'handlers.ts'] };
    await writeFile(join(project, 'tsconfig.json'), JSON.stringify(tsconfig));
    const [example = ''] = examples('www/guide/embedding.md', 'Types', 'ts');
    const wrong = `${example}\n// @ts-expect-error\nawait start({ symbols: 'BTC-USD' });\n`;
    await writeFile(join(project, 'typed.ts'), `${wrong}// @ts-expect-error\nawait services.stop(1);\n`);
    await writeFile(join(project, 'package.json'), JSON.stringify({ ...manifest(project), type: 'module' }));
    const compiled = await output(process.execPath, [
      join(projectFolder, 'node_modules/typescript/bin/tsc'),
      '-p',
      project,
    ]);
    expect(compiled.code, compiled.output).to.equal(0);
  });

  describeWith(
    oldNode() === undefined ? 'no Node older than 24.15 on the path' : undefined,
    'under an old Node',
    () => {
      const node = oldNode() ?? '';

      it('starts the Node that npm has installed', async () => {
        const program = await launch(node, [installed('dist/main/index.js')]);
        expect(await outcome(await portOf(program, 'tasks'), 'sum', { numbers: [1, 2] })).to.equal(3);
        program.child.kill('SIGTERM');
        expect(await program.exited).to.deep.equal({ code: 0, signal: null });
      });

      it('stops with npx if the Node on the path is old', async () => {
        // A command that npm starts by its name would get the installed Node.
        const script = `${node} ${installed('dist/main/index.js')} # ticker-and-tasks`;
        await useAndStop(await launch('npm', ['exec', '--call', script]));
      });

      it('says in one line what is too old, and how to install what is missing', async () => {
        const script = `import { start } from 'ticker-and-tasks';\nawait start().catch(({ message }) => console.error(message));`;
        await writeFile(join(project, 'old.mjs'), script);
        const line = /^Node 24\.15 or newer is needed, this is \S+: .*npm approve-scripts node.*\n$/;
        expect((await output(node, ['old.mjs'])).errors).to.match(/: run your program with "npx node"\n$/);
        // The state of the package if npm has not run its install script.
        rmSync(join(project, 'node_modules/node/bin'), { recursive: true });
        expect(await output(node, [installed('dist/main/index.js')])).to.deep.include({ code: 1, output: '' });
        expect((await output(node, [installed('dist/main/index.js')])).errors).to.match(line);
        expect((await output(node, ['old.mjs'])).errors).to.match(line);
      });
    },
  );
});

function manifest(folder: string): object {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}
