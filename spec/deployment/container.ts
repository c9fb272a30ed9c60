import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chownSync, cpSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { projectFolder } from '../support/program.ts';
import { environment, last, type Stage, type Step, stages } from './dockerfile.ts';

/**
 * Runs a command in a folder whose base system is this machine's, mounted read-only, with the Node that runs the
 * specs at /usr/local/bin. The mount namespace ends with the process. Arguments: `$1` the folder, `$2` npm's folder,
 * `$3` the Node binary, `$4` commands to run before, then the command.
 */
const ENTER = `set -e
root=$1 npm=$2 node=$3 prepare=$4; shift 4
mount --bind "$root" "$root"
mkdir -p "$root/tmp" "$root/proc" "$root/dev" "$root/usr" "$root/etc"
for each in /bin /lib /lib64 /sbin; do [ -e "$root$each" ] || [ ! -e $each ] || cp -P $each "$root$each"; done
for each in /usr /etc; do mount --bind $each "$root$each"; mount -o remount,bind,ro "$root$each"; done
for each in /proc /dev; do mount --rbind $each "$root$each"; done
mount -t tmpfs local "$root/usr/local"
mkdir -p "$root/usr/local/bin" "$root/usr/local/lib/node_modules/npm"
touch "$root/usr/local/bin/node"
mount --bind "$node" "$root/usr/local/bin/node"
mount --bind "$npm" "$root/usr/local/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
eval "$prepare"
exec chroot "$root" "$@"`;

/** Mounts as a container engine does for `read_only`, one volume and a tmpfs. */
const READ_ONLY = `
mkdir -p "$root.volume"
chown --reference="$root$VOLUME" "$root.volume"
mount --bind "$root.volume" "$root$VOLUME"
mount -t tmpfs tmp "$root/tmp"
mount -o remount,bind,ro "$root"`;

/** Mounts this machine's home folder as root's, for npm's settings and cache. */
const WITH_HOME = 'mkdir -p "$root/root"; mount --bind "$HOME" "$root/root"';

/** Returns the reason why containers cannot be imitated on this machine, or undefined if they can. */
export function lackingForContainers(): string | undefined {
  try {
    execFileSync('unshare', ['--mount', 'setpriv', '--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'only root can imitate a container, with unshare and setpriv: apt-get install util-linux';
  }
}

/** Executes the Dockerfile's instructions in `folder`, without a container engine. Returns the image's folder. */
export function buildImage(folder: string): string {
  const roots = new Map<string | undefined, string>();
  let root = folder;
  for (const stage of stages()) {
    root = join(folder, stage.name ?? 'image');
    mkdirSync(root);
    roots.set(stage.name, root);
    let workdir = '/';
    for (const step of stage.steps) {
      if (step.keyword === 'WORKDIR') workdir = resolve(workdir, step.arguments[0] as string);
      mkdirSync(join(root, workdir), { recursive: true });
      if (step.keyword === 'COPY')
        copy(step, step.flags.from === undefined ? undefined : roots.get(step.flags.from), root, workdir);
      if (step.keyword === 'RUN') build(root, workdir, stage, step.text);
    }
  }
  return root;
}

/** Runs a command of the image as the image's user. Only the volume and /tmp are writable. */
export function runImage(root: string, command: readonly string[], env: Record<string, string>): ChildProcess {
  const image = stages().at(-1) as Stage;
  const [uid = '', gid = ''] = (last(image, 'USER').arguments[0] ?? '').split(':');
  const user = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all'];
  const variables = { PATH: '/usr/local/bin:/usr/bin:/bin', ...environment(image), ...env };
  const workdir = resolve('/', last(image, 'WORKDIR').arguments[0] as string);
  return spawn(
    'unshare',
    enter(root, READ_ONLY, [
      'setpriv',
      ...user,
      '--inh-caps=-all',
      'env',
      '--ignore-environment',
      `--chdir=${workdir}`,
      ...pairs(variables),
      ...command,
    ]),
    { env: { ...process.env, VOLUME: last(image, 'VOLUME').arguments[0] }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
}

function build(root: string, workdir: string, stage: Stage, command: string): void {
  const certificates = process.env.NODE_EXTRA_CA_CERTS;
  if (certificates !== undefined) cpSync(certificates, join(root, 'certificates.pem'));
  const variables = {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: '/root',
    npm_config_prefer_offline: 'true',
    ...(certificates === undefined ? {} : { NODE_EXTRA_CA_CERTS: '/certificates.pem' }),
    ...environment(stage),
  };
  const shell = ['env', '--ignore-environment', `--chdir=${workdir}`, ...pairs(variables), 'sh', '-c', command];
  execFileSync('unshare', enter(root, WITH_HOME, shell), { stdio: ['ignore', 'pipe', 'pipe'] });
}

function enter(root: string, prepare: string, command: string[]): string[] {
  const npm = execFileSync(
    'sh',
    ['-c', 'PATH=$(echo "$PATH" | tr : "\\n" | grep -v node_modules | paste -sd:); command -v npm'],
    {
      encoding: 'utf8',
    },
  );
  const npmFolder = dirname(dirname(realpathSync(npm.trim())));
  return ['--mount', 'sh', '-c', ENTER, 'enter', root, npmFolder, realpathSync(process.execPath), prepare, ...command];
}

/** Copies as COPY does: the contents of a folder, or a file into a folder that ends in a slash. Skips ignored files. */
function copy(step: Step, from: string | undefined, root: string, workdir: string): void {
  const sources = step.arguments.slice(0, -1);
  const destination = step.arguments.at(-1) as string;
  const [uid, gid] = (step.flags.chown ?? '0:0').split(':').map(Number) as [number, number];
  for (const source of sources) {
    const path = from === undefined ? resolve(projectFolder, source) : join(from, source);
    const intoFolder = statSync(path).isFile() && destination.endsWith('/');
    const target = join(root, resolve(workdir, destination), intoFolder ? (source.split('/').at(-1) as string) : '');
    const filter = from === undefined ? inContext : undefined;
    cpSync(path, target, { recursive: true, verbatimSymlinks: true, ...(filter && { filter }) });
    chownSync(target, uid, gid);
  }
}

/** Whether .dockerignore includes a file of the project. It ignores everything except the paths that it names. */
function inContext(path: string): boolean {
  const [, ...taken] = readFileSync(join(projectFolder, '.dockerignore'), 'utf8').trim().split('\n');
  const [top] = path.slice(projectFolder.length).split('/').filter(Boolean);
  return top === undefined || taken.includes(`!${top}`);
}

function pairs(variables: Record<string, string>): string[] {
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`);
}
