import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterTest } from './cleanup.ts';

/** A proxy to a service, whose connections can be cut and restored. */
export interface Severable {
  /** `http://<host>:<port>` */
  url: string;
  /** Destroys every connection, and every new one until the connection is restored with `mend`. */
  cut(): void;
  /** Stops passing data on, but closes no connection, until the connection is restored with `mend`. */
  stall(): void;
  mend(): void;
}

/** Starts a TCP proxy to a service. @param host local address that the proxy listens on */
export async function severable(service: string, host = '127.0.0.1'): Promise<Severable> {
  const { hostname, port } = new URL(service);
  const sockets = new Set<Socket>();
  let severed = false;
  let stalled = false;
  const server = createServer((near) => {
    if (stalled) {
      sockets.add(near.on('error', () => {}));
      return;
    }
    if (severed) {
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
    cut,
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
