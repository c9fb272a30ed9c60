/**
 * `npm run setup [-- <npm options>]`: installs missing dependencies with npm. Node 12 must be able to parse this file,
 * and the file must import no package, because nothing is installed yet.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../..', import.meta.url));

if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else if (!isInstalled()) process.exitCode = install();

/** Whether `node_modules` matches package-lock.json, and package-lock.json matches package.json. */
function isInstalled() {
  const [project, wanted, present] = ['package.json', 'package-lock.json', 'node_modules/.package-lock.json'].map(read);
  if (project === undefined || wanted === undefined || present === undefined) return false;
  const own = wanted.packages[''];
  if (!isSame(project.dependencies, own.dependencies)) return false;
  if (!isSame(project.devDependencies, own.devDependencies)) return false;
  return Object.entries(wanted.packages).every(([path, { version, optional }]) => {
    if (path === '') return true;
    const found = present.packages[path];
    const manifest = join(folder, path, 'package.json');
    return found === undefined ? optional : found.version === version && existsSync(manifest);
  });
}

function isSame(one = {}, other = {}) {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

function read(name) {
  try {
    return JSON.parse(readFileSync(join(folder, name), 'utf8'));
  } catch (_) {
    return undefined;
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
