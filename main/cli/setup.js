/**
 * `npm run setup [-- <npm options>]`: installs missing dependencies with npm. Node 12 must be able to parse this file,
 * and the file must import no package, because nothing is installed yet.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../..', import.meta.url));
const pathOf = (name) => join(folder, name);

const INSTALL = ['install', '--include=dev', '--no-save', '--prefer-offline', '--no-audit', '--no-fund'];
/** With its default limits, npm would wait for minutes if a connection fails during the installation. */
const DOWNLOAD_LIMITS = ['--fetch-retries=2', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000'];
/** Timeout of the registry's first response, because npm itself would wait for minutes for a silent server. */
const PING_TIMEOUT_MS = 15000;
/** Error codes of failed connections and of npm's `offline` setting. */
const UNREACHABLE = /\b(ENOTCACHED|ECONN[A-Z]+|ENOTFOUND|EAI_[A-Z]+|E[A-Z]*TIMED?OUT|ENET[A-Z]+|EHOST[A-Z]+|EPROTO)\b/;
const NOT_WRITABLE = /\b(EACCES|EPERM|EROFS)\b/;

const problem = unusableRuntime() || notWritable('dist') || (isInstalled() ? '' : install()) || unusableNode();
if (problem !== '') {
  console.error(problem);
  process.exitCode = 1;
}

function unusableRuntime() {
  const { node } = process.versions;
  return Number.parseInt(node, 10) >= 18
    ? ''
    : `Node 18 or newer is needed, this is ${node}: install it from https://nodejs.org`;
}

function notWritable(name) {
  const path = existsSync(pathOf(name)) ? pathOf(name) : folder;
  try {
    accessSync(path, constants.W_OK);
    return '';
  } catch (error) {
    const isBuilt = existsSync(pathOf('dist/main/index.js'));
    const remedy = isBuilt ? 'run the existing build with "node dist/main", or copy' : 'copy';
    return `${path} cannot be written (${error.code}): ${remedy} the project to a folder of your own`;
  }
}

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
    return found === undefined ? optional : found.version === version && existsSync(pathOf(`${path}/package.json`));
  });
}

function isSame(one = {}, other = {}) {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

function read(name) {
  try {
    return JSON.parse(readFileSync(pathOf(name), 'utf8'));
  } catch (_) {
    return undefined;
  }
}

function install() {
  const problem = notWritable('node_modules');
  if (problem !== '') return problem;
  console.error('Installing the dependencies …');
  const ping = npm(['ping', '--fetch-retries=0'], PING_TIMEOUT_MS);
  const isOnline = ping.status === 0 || (!ping.timedOut && !UNREACHABLE.test(ping.output));
  // Without a reachable registry, npm's cache may still contain all packages.
  const limits = isOnline ? DOWNLOAD_LIMITS : ['--offline'];
  const { status, output } = npm([...INSTALL, ...limits, ...process.argv.slice(2)]);
  return status === 0 ? '' : failure(output, isOnline);
}

function npm(options, timeout) {
  const cli = process.env.npm_execpath || '';
  const isNpm = cli.endsWith('npm-cli.js');
  const args = [...(isNpm ? [cli] : []), ...options, '--json', '--loglevel=error'];
  const { status, stdout, stderr, error } = spawnSync(isNpm ? process.execPath : 'npm', args, {
    cwd: folder,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    timeout,
  });
  const timedOut = error !== undefined && error.code === 'ETIMEDOUT';
  return { status, timedOut, output: `${stdout}${stderr}${error === undefined ? '' : `spawn ${error.code}`}` };
}

/** Describes a failed installation in one line, because npm prints a stack trace and the registry's address. */
function failure(output, isOnline) {
  if (output.includes('spawn ENOENT')) return 'npm is needed: install it with Node from https://nodejs.org';
  const [notWritable] = NOT_WRITABLE.exec(output) || [];
  if (notWritable !== undefined)
    return `npm cannot write to its cache or to node_modules (${notWritable}): check the owner and the permissions of ~/.npm and ${pathOf('node_modules')}`;
  if (/\bENOSPC\b/.test(output)) return 'the disk is full: free up about 500 MB, then run this command again';
  if (!isOnline || UNREACHABLE.test(output))
    return 'npm cannot reach its registry: connect to the internet, or set npm\'s "proxy" or "registry" (npm help config), then run this command again';
  const [, code = 'unknown error'] = /"code": "?(\w+)/.exec(output) || [];
  return `npm could not install the dependencies (${code}): "npm install" shows the reason`;
}

/** Returns the problem if neither this Node.js nor an installed one can run the services, or an empty string. */
function unusableNode() {
  const { dependencies, engines } = read('package.json');
  const installed = pathOf('node_modules/node/bin/node');
  if (!existsSync(installed)) {
    const [major, minor] = engines.node.match(/\d+/g).map(Number);
    const [ownMajor, ownMinor] = process.versions.node.split('.').map(Number);
    if (ownMajor > major || (ownMajor === major && ownMinor >= minor)) return '';
    return 'npm did not run the install script of the package "node" (ignore-scripts is set?): run "npm rebuild node --ignore-scripts=false", then this command again';
  }
  const { status, stderr, error } = spawnSync(installed, ['--version'], { encoding: 'utf8' });
  if (status === 0) return '';
  const [, library] = /loading shared libraries: ([^:\s]+)/.exec(stderr) || [];
  if (library === undefined) {
    const reason = error === undefined ? stderr.trim().split('\n')[0] : error.code;
    return `${installed} does not run (${reason}): delete node_modules, then run this command again`;
  }
  const name = library.startsWith('libatomic.') ? ' (Debian and Ubuntu: apt-get install libatomic1)' : '';
  return `Node ${dependencies.node} needs the library ${library}: install it${name}, then run this command again`;
}
