/**
 * `npm run setup [-- <npm options>]`: installs missing dependencies with npm. Node 12 must be able to parse this file,
 * and the file must import no package, because nothing is installed yet.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../..', import.meta.url));

if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else if (!isInstalled()) process.exitCode = install();

/** Whether npm, which then writes a lockfile of its own, has installed after the last change of the project's files. */
function isInstalled() {
  const [installed, ...changed] = ['node_modules/.package-lock.json', 'package.json', 'package-lock.json'].map(timeOf);
  // Missing after an installation without development dependencies.
  const hasCompiler = existsSync(join(folder, 'node_modules/typescript/package.json'));
  return hasCompiler && changed.every((time) => time <= installed);
}

/** Returns NaN if there is no such file. */
function timeOf(name) {
  try {
    return statSync(join(folder, name)).mtimeMs;
  } catch (_) {
    return NaN;
  }
}

/** Returns npm's exit code. npm reports its errors itself. */
function install() {
  console.error('Installing the dependencies …');
  const options = ['install', '--include=dev', '--no-save', '--prefer-offline', '--no-audit', '--no-fund'];
  const args = [...options, '--loglevel=error', ...process.argv.slice(2)];
  const cli = process.env.npm_execpath || '';
  const isNpm = cli.endsWith('npm-cli.js');
  const [command, ...first] = isNpm ? [process.execPath, cli] : ['npm'];
  // npm's standard output is redirected, so that scripts such as `npm run keys` print only their own.
  const { status, error } = spawnSync(command, [...first, ...args], { cwd: folder, stdio: ['ignore', 2, 'inherit'] });
  if (error !== undefined) console.error(`npm is needed (${error.code}): install it with Node from https://nodejs.org`);
  return status === null ? 1 : status;
}
