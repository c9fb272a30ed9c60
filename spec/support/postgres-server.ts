import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';

/** A PostgreSQL server of its own, in a temporary folder. */
export interface PostgresServer {
  /** `postgres://…/postgres` */
  url: string;
  start(): Promise<void>;
  /** @param how `immediate` as the loss of power does */
  stop(how?: 'fast' | 'immediate'): Promise<void>;
  /** Stops it, and removes its folder. */
  remove(): Promise<void>;
}

const DEBIAN = '/usr/lib/postgresql';

/** The folder of `initdb` and `postgres`; Debian keeps those of each version off the path. */
function binaries(): string | undefined {
  const folders = (process.env.PATH ?? '').split(':');
  try {
    const versions = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
    folders.push(...versions.map((version) => join(DEBIAN, version, 'bin')));
  } catch {
    // Not Debian's.
  }
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

/** The server refuses to run as root, so it does as `postgres` then. */
function owner(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { stdio: ['ignore', 'pipe', 'ignore'] }));
  return { uid: id('-u'), gid: id('-g') };
}

/** What this machine lacks for a server; undefined where nothing. */
export function lackingPostgres(): string | undefined {
  if (binaries() === undefined) return 'there is no PostgreSQL on this machine';
  try {
    owner();
    return undefined;
  } catch {
    return 'there is no user postgres on this machine';
  }
}

/** Makes a server with an empty database cluster and starts it. It ends with this process, however that ends. */
export async function startPostgres(): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-postgres-'));
  const as = owner();
  if (as) chownSync(folder, as.uid, as.gid);
  const bin = binaries() ?? '';
  const run = promisify(execFile);
  const data = join(folder, 'data');
  const initialise = ['-D', data, '-U', 'spec', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
  await run(join(bin, 'initdb'), initialise, { cwd: folder, ...as });
  const port = await freePort();
  let child: ChildProcess | undefined;

  const server: PostgresServer = {
    url: `postgres://spec@127.0.0.1:${port}/postgres`,
    async start() {
      const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'unix_socket_directories=', 'fsync=off'];
      settings.push('max_connections=200', 'shared_buffers=64MB', 'log_min_messages=fatal');
      const args = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])];
      // The shell learns of the end of this process by the end of its input.
      const script = `"$@" >/dev/null 2>&1 </dev/null &
        if read -r how; then kill -s "$how" $!; wait $!; else kill -s QUIT $!; wait $!; rm -rf "$0"; fi`;
      child = spawn('sh', ['-c', script, folder, join(bin, 'postgres'), ...args], {
        cwd: folder,
        stdio: ['pipe', 'ignore', 'ignore'],
        detached: true,
        ...as,
      });
      child.unref();
      (child.stdin as unknown as { unref(): void }).unref();
      while (!(await accepts(server.url))) {
        if (child.exitCode !== null) throw new Error('the PostgreSQL server does not start');
        await setTimeout(20);
      }
    },
    async stop(how = 'fast') {
      if (child === undefined || child.exitCode !== null) return;
      child.ref();
      const ended = once(child, 'exit');
      child.stdin?.end(how === 'fast' ? 'INT\n' : 'QUIT\n');
      await ended;
    },
    async remove() {
      await server.stop('immediate');
      await run('rm', ['-rf', folder]);
    },
  };
  await server.start();
  return server;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Whether the server has come up. */
async function accepts(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 1000 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
