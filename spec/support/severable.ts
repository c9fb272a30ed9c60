import { connect, createServer, type Socket } from 'node:net';
import { listenLocally } from './free-port.ts';

/** Starts a TCP proxy to a service or a database, whose connections can be cut and restored. */
export async function severable(service: string) {
  const { host, hostname, port } = new URL(service);
  /** Open sockets, and whether they are of the service. */
  const sockets = new Map<Socket, boolean>();
  let fault: 'severed' | 'stalled' | 'losing answers' | undefined;
  let refused = 0;
  const keep = (socket: Socket, isOfService = false, other?: Socket) => {
    sockets.set(socket, isOfService);
    socket.on('error', () => {});
    socket.once('close', () => {
      sockets.delete(socket);
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
    keep(near, false, far);
    keep(far, true, near);
    near.pipe(far);
    if (fault === 'losing answers') far.resume();
    else far.pipe(near);
  });
  /** Destroys every connection, and every new one until the connection is restored with `mend`. */
  const cut = () => {
    fault = 'severed';
    for (const socket of sockets.keys()) socket.destroy();
  };
  const ownPort = await listenLocally(server);
  return {
    url: service.replace(host, `127.0.0.1:${ownPort}`),
    get refused() {
      return refused;
    },
    cut,
    /** Stops passing data on, but closes no connection, until the connection is restored with `mend`. */
    stall() {
      fault = 'stalled';
      for (const socket of sockets.keys()) socket.unpipe().pause();
    },
    /** Passes on only what clients send, until the connections are cut. */
    loseAnswers() {
      fault = 'losing answers';
      for (const [socket, isOfService] of sockets) if (isOfService) socket.unpipe().resume();
    },
    mend() {
      // Data that was held back is lost, as the packets of a real outage are.
      if (fault === 'stalled') for (const socket of sockets.keys()) socket.destroy();
      fault = undefined;
    },
  };
}
