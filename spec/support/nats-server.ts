import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { NatsLink } from '../../main/cluster/nats-link.ts';
import { defaults } from '../../main/config.ts';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { onFreePort } from './free-port.ts';
import { captureLog } from './log.ts';
import { program } from './requirements.ts';

/** A NATS server of one test, with JetStream in its own folder. */
export interface NatsServer {
  url: string;
  /** A connection that reconnects without limit and is closed after the test. */
  connect(): Promise<NatsConnection>;
  /** A node's link over a connection of its own, with the prefix `spec`. */
  link(): Promise<NatsLink>;
  /** Starts the server again, on the same port and with the same data. */
  start(): Promise<void>;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Stops the process with SIGSTOP, so that its connections stay open but silent. */
  freeze(): void;
  thaw(): void;
}

/** Opens a node's link over a connection, with its own log. */
export function openLink(connection: NatsConnection, prefix = 'spec'): Promise<NatsLink> {
  return NatsLink.open(connection, { ...defaults.nats, prefix }, captureLog().log);
}

/**
 * Shell script that runs the server. At the end of its input, which is also the end of the spec process, it kills the
 * server and removes the folder.
 */
const UNTIL_END_OF_INPUT = '"$@" </dev/null & read -r _; kill -s KILL $!; wait $!; rm -rf "$0"';

let shared: Promise<string> | undefined;

/**
 * Returns the URL of a server for specs that use their own subject and stream names. It starts once per process and
 * ends with it.
 */
export function sharedNatsServer(): Promise<string> {
  shared ??= startShared();
  return shared;
}

async function startShared(): Promise<string> {
  return onFreePort(async (port) => {
    const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-nats-'));
    const args = ['-c', UNTIL_END_OF_INPUT, folder, ...command(port, folder)];
    const child = spawn('sh', args, { stdio: ['pipe', 'ignore', 'pipe'], detached: true });
    await ready(child).catch((error) => {
      child.stdin.end();
      throw error;
    });
    child.unref();
    for (const pipe of [child.stdin, child.stderr] as unknown as Socket[]) pipe.unref();
    return `nats://127.0.0.1:${port}`;
  });
}

/**
 * @param jetStream whether the server has JetStream
 * @param options further command-line options
 */
export async function startNatsServer({
  jetStream = true,
  options = [],
}: {
  jetStream?: boolean;
  options?: readonly string[];
} = {}): Promise<NatsServer> {
  const folder = await temporaryFolder();
  let child: ChildProcess | undefined;
  let over = false;

  const startOn = async (port: number) => {
    if (over) throw new Error('the test ended first');
    const [file = '', ...args] = command(port, jetStream ? folder : undefined);
    child = spawn(file, [...args, ...options], { stdio: ['ignore', 'ignore', 'pipe'] });
    await ready(child);
    return port;
  };
  const kill = async () => {
    const killed = child;
    child = undefined;
    if (killed === undefined || killed.exitCode !== null || killed.signalCode !== null) return;
    const exited = once(killed, 'exit');
    killed.kill('SIGKILL');
    await exited;
  };

  afterTest(() => {
    over = true;
    return kill();
  });
  const port = await onFreePort(startOn);
  const url = `nats://127.0.0.1:${port}`;
  const connectTo = async () => {
    const connection = await connect({
      servers: url,
      maxReconnectAttempts: -1,
      reconnectTimeWait: 50,
      reconnectJitter: 0,
      pingInterval: 1_000,
    });
    afterTest(() => connection.close());
    return connection;
  };
  return {
    url,
    connect: connectTo,
    link: async () => openLink(await connectTo()),
    start: () => startOn(port).then(() => {}),
    kill,
    freeze: () => child?.kill('SIGSTOP'),
    thaw: () => child?.kill('SIGCONT'),
  };
}

/** @param folder folder of JetStream, if the server has it */
function command(port: number, folder?: string): string[] {
  const jetStream = folder === undefined ? [] : ['-js', '-sd', folder];
  return [program('nats-server') ?? 'nats-server', '-a', '127.0.0.1', '-p', `${port}`, ...jetStream];
}

/** Waits until the server logs that it is ready. @throws {Error} with its log if it cannot start */
async function ready(child: ChildProcess): Promise<void> {
  let log = '';
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-10_000);
    if (log.includes('Server is ready')) resolve();
    // After a fatal error of the server, the shell script keeps running, so `exit` is not emitted.
    if (log.includes('[FTL]')) reject(new Error(`nats-server failed: ${log}`));
  });
  child.once('error', reject);
  child.once('exit', () => reject(new Error(`nats-server ended: ${log}`)));
  await promise;
}
