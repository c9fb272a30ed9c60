import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterTest } from '../../support/cleanup.ts';

/** Starts a proxy to a server. A test can cut its connections, stop forwarding, or lose answers. */
export async function proxyTo(url: string) {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  /** Whether nothing is forwarded, or only what clients send. */
  const state = { silent: false, losesAnswers: false };
  const keep = (socket: Socket) => {
    sockets.add(socket.on('error', () => {}));
    socket.on('close', () => sockets.delete(socket));
  };
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    keep(client);
    keep(upstream);
    client.on('data', (data) => state.silent || upstream.write(data));
    upstream.on('data', (data) => state.silent || state.losesAnswers || client.write(data));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterTest(async () => {
    cut();
    server.close();
    await once(server, 'close');
  });
  const address = Object.assign(new URL(url), { port: (server.address() as { port: number }).port });
  return { url: address.href, state, cut };
}
