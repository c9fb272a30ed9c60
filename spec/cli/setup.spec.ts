import { rm } from 'node:fs/promises';
import { expect } from 'chai';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { lackingMounts } from '../support/small-disk.ts';
import { lockfile, SetupProject, VERSION } from './setup-project.ts';

const INSTALLING = 'Installing the dependencies …\n';

/** Code of a fake npm that fails as npm does with `--json`. */
const fails = (code: string) =>
  `if (command === 'install') { console.log(JSON.stringify({ error: { code: '${code}', summary: 'https://registry.example' } }, null, 2)); process.exitCode = 1; }`;

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
      const [ping, install] = await project.calls();
      expect(ping).to.match(/^ping --fetch-retries=0 /);
      expect(install)
        .to.match(/^install --include=dev --no-save --prefer-offline .*--fetch-retries=2 .*--ignore-scripts/)
        .and.not.include('--offline');
    }
  });

  for (const [code, line] of [
    ['ENOSPC', /^the disk is full: /],
    ['EACCES', /^npm cannot write to its cache or to node_modules \(EACCES\): check the owner /],
    ['ECONNRESET', /^npm cannot reach its registry: connect to the internet, /],
    ['ETARGET', /^npm could not install the dependencies \(ETARGET\): "npm install" shows the reason$/],
  ] as const) {
    it(`says in one line what to do after npm's ${code}`, async () => {
      const project = await SetupProject.create();
      const { code: exitCode, stdout, stderr } = await project.run(await project.fakeNpm(fails(code)));
      expect([exitCode, stdout]).to.deep.equal([1, '']);
      expect(stderr.startsWith(INSTALLING)).to.equal(true);
      expect(stderr.slice(INSTALLING.length).trimEnd())
        .to.match(line)
        .and.not.match(/\n|registry\.example/);
    });
  }

  it('tries npm’s cache if the registry cannot be reached', async () => {
    const project = await SetupProject.create();
    const { code, stderr } = await project.runUnreachable(1);
    expect(code, stderr).to.equal(1);
    expect(stderr)
      .to.match(/^Installing .*\nnpm cannot reach its registry: .*\n$/)
      .and.not.include('127.0.0.1');
  });

  it('says how to run the install script of the package node that ignore-scripts has prevented', async () => {
    const project = await (await SetupProject.create()).install('');
    const { code, stderr } = await project.run();
    expect(code).to.equal(1);
    expect(stderr).to.match(/^npm did not run .*: run "npm rebuild node --ignore-scripts=false", then .*\n$/);
    const newer = await (await SetupProject.create({ engine: '>=20.1' })).install('');
    expect(await newer.run(), 'a system with a new Node').to.deep.equal({ code: 0, stdout: '', stderr: '' });
  });

  it('names a library that the installed Node lacks, and the package of libatomic', async () => {
    const lacks = (library: string) =>
      `echo "node: error while loading shared libraries: ${library}: cannot open shared object file: No such file" >&2; exit 127`;
    const project = await (await SetupProject.create()).install(lacks('libatomic.so.1'));
    expect(await project.run()).to.deep.equal({
      code: 1,
      stdout: '',
      stderr:
        'Node 26.10.0 needs the library libatomic.so.1: install it (Debian and Ubuntu: apt-get install libatomic1), then run this command again\n',
    });
    await project.install(lacks('libx.so.2'));
    expect((await project.run()).stderr).to.match(
      /^Node 26\.10\.0 needs the library libx\.so\.2: install it, then .*\n$/,
    );
    await project.install('echo "cannot execute: wrong format" >&2; exit 1');
    expect((await project.run()).stderr).to.match(/^\S+ does not run \(cannot execute: wrong format\): delete .*\n$/);
  });

  it('names the library in npm start, too, although npm puts the broken Node on the PATH', async () => {
    const project = await (await SetupProject.create()).install(
      'echo "node: error while loading shared libraries: libatomic.so.1: no" >&2; exit 127',
    );
    const { code, stdout, stderr } = await project.npm('start');
    expect([code, stdout]).to.deep.equal([1, '']);
    expect(stderr).to.match(/^Node 26\.10\.0 needs the library libatomic\.so\.1: .*\n$/);
  });

  it('checks the installation in npm start even with ignore-scripts, which skips prestart', async () => {
    const project = await (await SetupProject.create()).install('');
    const { code, stderr } = await project.npm('start', { npm_config_ignore_scripts: 'true' });
    expect(code).to.equal(1);
    expect(stderr).to.match(/^npm did not run the install script .*\n$/);
  });

  describeWith(lackingMounts() ?? lackingProgram('unshare'), 'on a read-only file system', () => {
    const readOnly = [
      'unshare',
      '--mount',
      'sh',
      '-c',
      'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$@"',
      'sh',
    ];

    it('says that the folder cannot be written, and which build can be run', async () => {
      const project = await SetupProject.create();
      const { code, stderr } = await project.run({}, [], readOnly);
      expect(code).to.equal(1);
      expect(stderr).to.match(/^\S+ cannot be written \(EROFS\): copy the project to a folder of your own\n$/);
      await (await project.install()).write('dist/main/index.js', '');
      expect((await project.run({}, [], readOnly)).stderr).to.match(
        /^\S+dist cannot be written \(EROFS\): run .*"node dist\/main", or copy .*\n$/,
      );
    });
  });
});
