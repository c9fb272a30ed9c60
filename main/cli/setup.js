/**
 * `npm run setup [-- <npm options>]` installs the dependencies with npm, if any are missing. If that is not possible,
 * prints one line that says what to do, and sets exit code 1. JavaScript that Node 12 can parse and that imports no
 * package, because it runs before anything is installed.
 */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../..', import.meta.url));
const pathOf = (name) => join(folder, name);

const INSTALL = ['install', '--include=dev', '--no-save', '--prefer-offline', '--no-audit', '--no-fund'];
/** Limits of npm's downloads. npm's defaults would wait for minutes if a connection fails during the installation. */
const DOWNLOAD_LIMITS = ['--fetch-retries=2', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000'];
/** Longest wait for the first response of the registry. npm itself would wait for minutes for a silent server. */
const PING_TIMEOUT_MS = 15000;
/** Error codes of a failed connection, and of npm's setting `offline`, as opposed to an error response. */
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

/** Returns the problem if a folder of the project, or the project's folder if there is none, cannot be written. */
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

/** Whether node_modules has the packages of package-lock.json, and package-lock.json those of package.json. */
function isInstalled() {
  const [project, wanted, present] = ['package.json', 'package-lock.json', 'node_modules/.package-lock.json'].map(read);
  if (project === undefined || wanted === undefined || present === undefined) return false;
  const own = wanted.packages[''];
  if (!isSame(project.dependencies, own.dependencies)) return false;
  if (!isSame(project.devDependencies, own.devDependencies)) return false;
  return Object.entries(wanted.packages).every(([path, { version, optional }]) => {
    if (path === '') return true;
    // Optional packages for other platforms are not installed.
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

/** Installs the dependencies. Returns the problem, or an empty string. */
function install() {
  const problem = notWritable('node_modules');
  if (problem !== '') return problem;
  console.error('Installing the dependencies …');
  const ping = npm(['ping', '--fetch-retries=0'], PING_TIMEOUT_MS);
  const isOnline = ping.status === 0 || (!ping.timedOut && !UNREACHABLE.test(ping.output));
  // Without a registry, npm's cache may have all packages.
  const limits = isOnline ? DOWNLOAD_LIMITS : ['--offline'];
  const { status, output } = npm([...INSTALL, ...limits, ...process.argv.slice(2)]);
  return status === 0 ? '' : failure(output, isOnline);
}

/** Runs npm, with the Node.js that runs the npm of `npm run`. */
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

/** Returns one line for a failed installation. npm's own text has a stack and the address of the registry. */
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

/** Returns the problem if neither this Node.js nor the Node.js of the npm package `node` can run the services. */
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
