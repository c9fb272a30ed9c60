import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

/** A NATS server with JetStream of one test, which can be stopped, and started again on what it has on disk. */
export interface NatsServer {
  url: string;
  /** Ends it without a word, as a crash does. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

export async function startNatsServer(host = '127.0.0.1'): Promise<NatsServer> {
  const folder = await temporaryFolder();
  const port = await freePort(host);
  let child: ChildProcess | undefined;
  const start = async () => {
    const options = ['-a', host, '-p', String(port), '-js', '-sd', folder];
    child = spawn('nats-server', options, {
      stdio: 'ignore',
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` },
    });
    await accepting(host, port);
  };
  const stop = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  afterTest(stop);
  await start();
  return { url: `nats://${host}:${port}`, start, stop };
}

/** A port that nobody listens on at the moment. */
export async function freePort(host: string): Promise<number> {
  const server = createServer();
  server.listen(0, host);
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Waits until somebody listens there. */
export async function accepting(host: string, port: number): Promise<void> {
  for (;;) {
    const socket = connect(port, host);
    const connected = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true));
      socket.once('error', () => resolve(false));
    });
    socket.destroy();
    if (connected) return;
    await setTimeout(20);
  }
}
