import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { execute } from './command.ts';
import { onFreePort } from './free-port.ts';
import { lacking } from './requirements.ts';

const DEBIAN = '/usr/lib/postgresql';
const CACHE = join(import.meta.dirname, '../../node_modules/.cache/postgres');

/** Returns the folder of `initdb` and `postgres`. Debian keeps these programs off the PATH, in a folder per version. */
function binaries(): string | undefined {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((one, other) => Number(other) - Number(one)) : [];
  const folders = [...(process.env.PATH ?? '').split(':'), ...versions.map((version) => join(DEBIAN, version, 'bin'))];
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

/** Returns the user that runs the server, which refuses to run as root. */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }));
  return { uid: id('-u'), gid: id('-g') };
}

export function lackingPostgres(): string | undefined {
  if (binaries() === undefined) return lacking('PostgreSQL server', 'postgresql');
  const isUserMissing = process.getuid?.() === 0 && spawnSync('id', ['postgres']).status !== 0;
  return isUserMissing ? 'there is no user postgres on this machine' : undefined;
}

/** Longest start, including a recovery after a crash. */
const MAX_START_MS = 60_000;

/** Runs the server until a signal name on standard input, or until the input's end, which also removes the folder. */
const SCRIPT = `exec 3<&0
"$@" >/dev/null 2>&1 </dev/null 3<&- & server=$!
{ if read -r signal; then kill -s "$signal" $server; else : >"$0/abandoned"; kill -s QUIT $server; fi; } <&3 & reader=$!
exec 3<&-
wait $server
status=$?
kill $reader 2>/dev/null
[ ! -e "$0/abandoned" ] || rm -rf "$0"
exit $status`;

const INITDB_OPTIONS = ['-U', 'spec', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];

/** Creates an empty cluster. Its owner keeps a copy for later runs, because `initdb` costs 1.8 s of CPU time. */
async function createCluster(data: string, bin: string, as: ReturnType<typeof owner>): Promise<void> {
  const { stdout: version } = await execute(join(bin, 'postgres'), ['--version']);
  const key = [version, as?.uid ?? process.getuid?.(), ...INITDB_OPTIONS].join(' ');
  const kept = join(CACHE, hash('sha256', key).slice(0, 16));
  if (existsSync(kept)) {
    await execute('cp', ['-a', kept, data]);
    return;
  }
  await execute(join(bin, 'initdb'), ['-D', data, ...INITDB_OPTIONS], { cwd: dirname(data), ...as });
  // The copy fails if another process was faster, or if the cache belongs to another user.
  const keep = 'mkdir -p "$0" && cp -a "$1" "$2.$$" && mv -T "$2.$$" "$2"; rm -rf "$2.$$"';
  await execute('sh', ['-c', keep, CACHE, data, kept]);
}

/** Starts a server with an empty database cluster. It ends with this process, even if this process is killed. */
export async function startPostgres() {
  const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-postgres-'));
  const as = owner();
  if (as) chownSync(folder, as.uid, as.gid);
  const bin = binaries() ?? '';
  const data = join(folder, 'data');
  let child: ChildProcess | undefined;

  const urlAt = (port: number) => `postgres://spec@127.0.0.1:${port}/postgres`;
  const startOn = async (port: number) => {
    const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'unix_socket_directories=', 'fsync=off'];
    settings.push('max_connections=200', 'shared_buffers=64MB', 'log_min_messages=fatal');
    const args = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])];
    child = spawn('sh', ['-c', SCRIPT, folder, join(bin, 'postgres'), ...args], {
      cwd: folder,
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
      ...as,
    });
    child.unref();
    child.stdin?.on('error', () => {});
    (child.stdin as unknown as { unref(): void }).unref();
    const deadline = performance.now() + MAX_START_MS;
    // The server itself notes there that it accepts connections.
    const state = join(data, 'postmaster.pid');
    while (!existsSync(state) || !readFileSync(state, 'utf8').includes('ready')) {
      if (child.exitCode !== null) throw new Error(`the PostgreSQL server ended with exit code ${child.exitCode}`);
      if (performance.now() > deadline) throw new Error('the PostgreSQL server does not accept connections');
      await setTimeout(20);
    }
    return port;
  };
  /** @param how `immediate` simulates a power loss */
  const stop = async (how: 'fast' | 'immediate' = 'fast') => {
    if (child === undefined || child.exitCode !== null) return;
    child.ref();
    const ended = once(child, 'exit');
    child.stdin?.end(how === 'fast' ? 'INT\n' : 'QUIT\n');
    await ended;
  };
  const remove = () => stop('immediate').then(() => execute('rm', ['-rf', folder]));

  const creating = createCluster(data, bin, as).then(() => onFreePort(startOn));
  creating.catch(remove);
  const port = await creating;
  return { url: urlAt(port), start: () => startOn(port), stop, remove };
}
