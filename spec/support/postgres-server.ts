import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { onFreePort } from './free-port.ts';
import { lacking } from './requirements.ts';

export type PostgresServer = Awaited<ReturnType<typeof startPostgres>>;

const DEBIAN = '/usr/lib/postgresql';
const CACHE = join(import.meta.dirname, '../../node_modules/.cache/postgres');

const run = promisify(execFile);

/** Returns the folder of `initdb` and `postgres`. Debian keeps these programs off the PATH, in a folder per version. */
function binaries(): string | undefined {
  const folders = (process.env.PATH ?? '').split(':');
  try {
    const versions = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
    folders.push(...versions.map((version) => join(DEBIAN, version, 'bin')));
  } catch {
    // Not a Debian installation.
  }
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

/**
 * Returns the user that runs the server: `postgres` if this process runs as root, because the server refuses to run
 * as root.
 */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }));
  return { uid: id('-u'), gid: id('-g') };
}

/** Returns what this machine lacks for a server, or undefined. */
export function lackingPostgres(): string | undefined {
  if (binaries() === undefined) return lacking('PostgreSQL server', 'postgresql');
  try {
    owner();
    return undefined;
  } catch {
    return 'there is no user postgres on this machine';
  }
}

/** Longest start, including a recovery after a crash. */
const MAX_START_MS = 60_000;

/**
 * Shell script that runs the server. A signal name on standard input stops the server. The end of the input, which is
 * also the end of the spec process, removes the folder as well. The script exits when the server does.
 */
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

/**
 * Creates an empty database cluster. A copy of it is kept for later runs: `initdb` costs 1.8 s of CPU time, a copy
 * 0.1 s. Each owner has a copy of its own, because only the owner can read it.
 */
async function createCluster(data: string, bin: string, as: ReturnType<typeof owner>): Promise<void> {
  const { stdout: version } = await run(join(bin, 'postgres'), ['--version']);
  const key = [version, as?.uid ?? process.getuid?.(), ...INITDB_OPTIONS].join(' ');
  const kept = join(CACHE, hash('sha256', key).slice(0, 16));
  if (existsSync(kept)) {
    await run('cp', ['-a', kept, data]);
    return;
  }
  await run(join(bin, 'initdb'), ['-D', data, ...INITDB_OPTIONS], { cwd: dirname(data), ...as });
  let unfinished: string | undefined;
  try {
    mkdirSync(CACHE, { recursive: true });
    unfinished = mkdtempSync(join(CACHE, 'unfinished-'));
    await run('cp', ['-a', data, unfinished]);
    renameSync(join(unfinished, basename(data)), kept);
  } catch (error) {
    // Another process was faster, or the cache belongs to another user.
    if (!['ENOTEMPTY', 'EEXIST', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    if (unfinished !== undefined) rmSync(unfinished, { recursive: true });
  }
}

/**
 * Creates a server with an empty database cluster and starts it. It ends with this process, even if this process is
 * killed.
 */
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
    while (!(await serves(urlAt(port), data))) {
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
  const remove = async () => {
    await stop('immediate');
    await run('rm', ['-rf', folder]);
  };

  const creating = createCluster(data, bin, as).then(() => onFreePort(startOn));
  const port = await creating.catch(async (error) => {
    await remove();
    throw error;
  });
  return { url: urlAt(port), start: () => startOn(port), stop, remove };
}

/** Whether the server of that data folder accepts connections at that URL. Another server may have taken its port. */
async function serves(url: string, data: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5000 });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query("SELECT current_setting('data_directory') AS folder");
    return rows[0]?.folder === data;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => {});
  }
}
