import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterTest } from './cleanup.ts';

export type Severable = Awaited<ReturnType<typeof severable>>;

/** Starts a TCP proxy to a service, whose connections can be cut and restored. @param host local address that the proxy listens on */
export async function severable(service: string, host = '127.0.0.1') {
  const { hostname, port } = new URL(service);
  const sockets = new Set<Socket>();
  let severed = false;
  let stalled = false;
  let refused = 0;
  const server = createServer((near) => {
    if (stalled) {
      sockets.add(near.on('error', () => {}));
      return;
    }
    if (severed) {
      refused += 1;
      near.destroy();
      return;
    }
    const far = connect(Number(port), hostname);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  /** Destroys every connection, and every new one until the connection is restored with `mend`. */
  const cut = () => {
    severed = true;
    for (const socket of sockets) socket.destroy();
  };
  afterTest(async () => {
    cut();
    server.close();
    await once(server, 'close');
  });
  server.listen(0, host);
  await once(server, 'listening');
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    /** Number of connections that were destroyed at once. */
    get refused() {
      return refused;
    },
    cut,
    /** Stops passing data on, but closes no connection, until the connection is restored with `mend`. */
    stall() {
      stalled = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
    mend() {
      severed = false;
      // Data that was held back is lost, as the packets of a real outage are.
      if (stalled) for (const socket of sockets) socket.destroy();
      stalled = false;
    },
  };
}
