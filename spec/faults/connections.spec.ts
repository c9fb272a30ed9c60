import { once } from 'node:events';
import { get } from 'node:http';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { handshake, head } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { eventually, until } from '../support/until.ts';
import { connect as connectStream } from '../support/websocket.ts';

/** Starts a process that may open 512 descriptors, with a setting that needs more. */
function startWithFewDescriptors(): Promise<RunningServices> {
  const nodeOptions = ['-c', 'ulimit -n 512; exec "$0" "$@"', process.execPath];
  return startServices({ node: '/bin/bash', nodeOptions, env: { MAX_CONNECTIONS: '600' } });
}

/** Opens connections that send nothing, and waits until each is accepted or refused. */
async function connectMany(url: string, count: number): Promise<Socket[]> {
  const port = Number(new URL(url).port);
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').on('error', () => {}));
  afterTest(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
  return sockets;
}

/** Waits until the service responds again. */
async function waitUntilServing(url: string): Promise<void> {
  await eventually(
    () => request(url).catch(() => undefined),
    (answer) => answer !== undefined,
  );
}

/** Submits one task and waits for its result, which needs the database. */
async function runTask({ tasks }: RunningServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  await eventually(
    () => request(`${tasks}/tasks/${body.id}`),
    (answer) => answer.body.status === 'completed',
  );
}

describe('more connections than there are descriptors', () => {
  it('to one service leave the other one unharmed, and the first as soon as they are gone', async () => {
    const services = await startWithFewDescriptors();
    const toTicker = await connectMany(services.ticker, 600);
    await runTask(services);
    for (const socket of toTicker) socket.destroy();
    await waitUntilServing(services.ticker);

    const toTasks = await connectMany(services.tasks, 600);
    expect(await services.token()).to.be.a('string');
    for (const socket of toTasks) socket.destroy();
    await waitUntilServing(services.tasks);
    await runTask(services);

    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    expect(services.errors()).to.equal('');
    const bounded = services.lines.find(({ openFiles }) => openFiles !== undefined);
    expect(bounded).to.include({ openFiles: 512, maxConnections: 295 });
  });
});

describe('half-sent requests of one address', () => {
  it('leave every port open to other addresses', async () => {
    const services = await startWithFewDescriptors();
    for (const [url, path] of [
      [services.ticker, '/'],
      [services.tasks, '/queue'],
      [services.admin, '/healthz'],
    ] as const) {
      for (const socket of await connectMany(url, 500)) socket.write('GET / HTTP/1.1\r\nHost');
      const { port } = new URL(url);
      const [response] = await once(get({ host: '127.0.0.1', port, path, localAddress: '127.0.0.2' }), 'response');
      response.resume();
      expect(response.statusCode, url).to.equal(200);
    }
  });
});

describe('a thousand half-open handshakes', () => {
  const SHORT = { headers: 3000, request: 3500, check: 50, closing: 200 };

  it('hold no handler, no connection slot, and after their timeout no socket, while others join', async () => {
    const bundle = await startTickerBundle({ timeouts: SHORT, limits: { handshakeMs: 3000 } });
    const opening = head(...handshake('/ws/ticker', await bundle.token()));
    const sockets: Socket[] = [];
    // Batches smaller than the listen backlog.
    while (sockets.length < 1000) sockets.push(...(await connectMany(bundle.url, 250)));
    for (const [index, socket] of sockets.entries()) {
      socket.allowHalfOpen = true;
      socket.resume();
      // Three kinds in turn: part of a handshake; a whole handshake and a reset; a handshake without a token and
      // without a FIN.
      if (index % 3 === 0) socket.write(opening.slice(0, index % opening.length));
      else if (index % 3 === 1) socket.write(opening, () => socket.resetAndDestroy());
      else socket.write(head(...handshake()));
    }
    const client = await connectStream(bundle.stream, { token: await bundle.token() });
    expect((await client.next()).type).to.equal('welcome');
    await until(() => bundle.sockets.size === 1);
    const { relay, processes } = bundle;
    expect([relay.size, relay.slotsTaken, processes.size]).to.deep.equal([1, 1, 3]);
    expect(bundle.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
});
