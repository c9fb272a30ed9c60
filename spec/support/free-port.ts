import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterTest } from './cleanup.ts';

/** First port to try. Linux assigns ports from 32768 up to outgoing connections and to listeners on port 0. */
const FIRST = 16_384;
const EPHEMERAL = 32_768;

/** Number of starts after which a server's failure is reported, because a taken port can no longer be the reason. */
const MAX_STARTS = 5;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, EPHEMERAL);
    const server = createServer().listen(port, '127.0.0.1');
    const refused = await once(server, 'listening').catch((error: Error) => error);
    if (refused instanceof Error) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Starts a server on a free port. Tries others if the start fails, because another process may take the port first. */
export async function onFreePort<Started>(start: (port: number) => Promise<Started>): Promise<Started> {
  for (let starts = 1; ; starts++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (starts === MAX_STARTS) throw error;
    }
  }
}

/** Lets a server listen until the test ends, which then cuts its connections. Returns its port. */
export async function listenLocally(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.once('close', () => sockets.delete(socket));
  });
  afterTest(async () => {
    if (!server.listening) return;
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}
