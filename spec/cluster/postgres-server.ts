import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { chown } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { accepting, freePort } from './nats-server.ts';

const run = promisify(execFile);

/** A PostgreSQL server of one test, which can be stopped, and started again on what it has on disk. */
export interface PostgresServer {
  url: string;
  /** Ends it at once, as a crash does. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

/** The server that the machine has running. */
const SHARED = 'postgres://root@127.0.0.1:5432/postgres';

/** A fresh database on the server that is running anyway, removed after the test. */
export async function freshDatabase(): Promise<string> {
  const name = `spec_${randomBytes(6).toString('hex')}`;
  await query(`CREATE DATABASE ${name}`);
  afterTest(() => query(`DROP DATABASE ${name} WITH (FORCE)`));
  return SHARED.replace(/[^/]+$/, name);
}

async function query(sql: string): Promise<void> {
  const client = new pg.Client(SHARED);
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

/** The folder of PostgreSQL's own programs, the newest version's. */
function programs(): string {
  const root = '/usr/lib/postgresql';
  const version = readdirSync(root).sort((a, b) => Number(b) - Number(a))[0] ?? '';
  return join(root, version, 'bin');
}

export async function startPostgresServer(host = '127.0.0.1'): Promise<PostgresServer> {
  const folder = await temporaryFolder();
  const data = join(folder, 'data');
  const port = await freePort(host);
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? await idOf('postgres') : undefined;
  if (user !== undefined) await chown(folder, user, user);
  const call = (program: string, ...args: string[]) =>
    run(join(programs(), program), args, { cwd: folder, ...(user !== undefined && { uid: user, gid: user }) });
  await call('initdb', '-D', data, '-U', 'spec', '-A', 'trust', '--no-sync');
  const settings = `-h ${host} -p ${port} -k ${folder} -c fsync=off -c listen_addresses=${host}`;
  const start = async () => {
    await call('pg_ctl', '-D', data, '-o', settings, '-l', join(folder, 'log'), '-w', 'start');
    await accepting(host, port);
  };
  const stop = async () => {
    if (existsSync(join(data, 'postmaster.pid'))) await call('pg_ctl', '-D', data, '-m', 'immediate', '-w', 'stop');
  };
  afterTest(stop);
  await start();
  return { url: `postgres://spec@${host}:${port}/postgres`, start, stop };
}

async function idOf(user: string): Promise<number> {
  return Number((await run('id', ['-u', user])).stdout);
}
