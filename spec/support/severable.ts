import { connect, createServer, type Socket } from 'node:net';
import { afterTest } from './cleanup.ts';
import { listenLocally } from './free-port.ts';

/** Starts a TCP proxy to a service or a database, whose connections can be cut and restored. */
export async function severable(service: string) {
  const { host, hostname, port } = new URL(service);
  const sockets = new Set<Socket>();
  /** Sockets of the service. */
  const answering = new Set<Socket>();
  let fault: 'severed' | 'stalled' | 'losing answers' | undefined;
  let refused = 0;
  const keep = (socket: Socket, other?: Socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.once('close', () => {
      for (const set of [sockets, answering]) set.delete(socket);
      other?.destroy();
    });
  };
  const server = createServer((near) => {
    if (fault === 'stalled') return keep(near);
    if (fault === 'severed') {
      refused += 1;
      near.destroy();
      return;
    }
    const far = connect(Number(port), hostname);
    keep(near, far);
    keep(far, near);
    answering.add(far);
    near.pipe(far);
    if (fault === 'losing answers') far.resume();
    else far.pipe(near);
  });
  /** Destroys every connection, and every new one until the connection is restored with `mend`. */
  const cut = () => {
    fault = 'severed';
    for (const socket of sockets) socket.destroy();
  };
  afterTest(cut);
  const ownPort = await listenLocally(server);
  return {
    /** The URL of the service, at the proxy. */
    url: service.replace(host, `127.0.0.1:${ownPort}`),
    /** Number of connections that were destroyed at once. */
    get refused() {
      return refused;
    },
    cut,
    /** Stops passing data on, but closes no connection, until the connection is restored with `mend`. */
    stall() {
      fault = 'stalled';
      for (const socket of sockets) socket.unpipe().pause();
    },
    /** Passes on only what clients send, until the connections are cut. */
    loseAnswers() {
      fault = 'losing answers';
      for (const far of answering) far.unpipe().resume();
    },
    mend() {
      // Data that was held back is lost, as the packets of a real outage are.
      if (fault === 'stalled') for (const socket of sockets) socket.destroy();
      fault = undefined;
    },
  };
}
