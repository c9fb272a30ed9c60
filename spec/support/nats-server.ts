import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { program } from './requirements.ts';

/** A NATS server of one test, with JetStream in a folder of its own. */
export interface NatsServer {
  url: string;
  /** A connection of its own, which tries to come back for as long as the test takes. */
  connect(): Promise<NatsConnection>;
  /** Starts it again, where it was, with what it had. */
  start(): Promise<void>;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** It stands still, and no connection is closed, until it goes on. */
  freeze(): void;
  thaw(): void;
}

let shared: Promise<string> | undefined;

/** Address of a server for specs that use names of their own; it is started once, and ends with this process. */
export function sharedNatsServer(): Promise<string> {
  shared ??= startShared();
  return shared;
}

async function startShared(): Promise<string> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-nats-'));
  const options = ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder];
  const child = spawn(program('nats-server') ?? 'nats-server', options, { stdio: 'ignore' });
  child.unref();
  process.once('exit', () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const url = `nats://127.0.0.1:${port}`;
  for (;;) {
    const connection = await connect({ servers: url, reconnect: false }).catch(() => undefined);
    if (connection !== undefined) {
      await connection.close();
      return url;
    }
    await setTimeout(20);
  }
}

export async function startNatsServer(): Promise<NatsServer> {
  const port = await freePort();
  const folder = await temporaryFolder();
  let child: ChildProcess | undefined;

  const start = async () => {
    const started = spawn(
      program('nats-server') ?? 'nats-server',
      ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    child = started;
    let log = '';
    const ready = Promise.withResolvers<void>();
    started.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-10_000);
      if (log.includes('Server is ready')) ready.resolve();
    });
    started.once('exit', () => ready.reject(new Error(`nats-server ended: ${log}`)));
    await ready.promise;
  };
  const kill = async () => {
    const killed = child;
    child = undefined;
    if (killed === undefined) return;
    const exited = once(killed, 'exit');
    killed.kill('SIGKILL');
    await exited;
  };

  afterTest(kill);
  await start();
  return {
    url: `nats://127.0.0.1:${port}`,
    async connect() {
      const connection = await connect({
        servers: `nats://127.0.0.1:${port}`,
        maxReconnectAttempts: -1,
        reconnectTimeWait: 50,
        reconnectJitter: 0,
        pingInterval: 1_000,
      });
      afterTest(() => connection.close());
      return connection;
    },
    start,
    kill,
    freeze: () => child?.kill('SIGSTOP'),
    thaw: () => child?.kill('SIGCONT'),
  };
}

/** A port that nobody listens on at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
