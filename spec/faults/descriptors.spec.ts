import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { defaults } from '../../main/config.ts';
import { shareDescriptors } from '../../main/http/connection-limiter.ts';
import { afterTest, onceForSuite } from '../support/cleanup.ts';
import { openDescriptors, openFiles } from '../support/proc.ts';
import { limitedTo, post, type RunningServices, startServices, untilServed, untilTask } from '../support/program.ts';
import { head } from '../support/raw-connection.ts';
import { statusFrom } from '../support/server.ts';
import { until } from '../support/until.ts';
import { connect as connectStream } from '../support/websocket.ts';

async function connectMany(url: string, count: number, localAddress = '127.0.0.1'): Promise<Socket[]> {
  const port = Number(new URL(url).port);
  const open = () => connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
  const sockets = Array.from({ length: count }, open);
  afterTest(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
  return sockets;
}

/** Opens connections that send nothing, from two addresses, until the service closes one of them. */
async function fill(url: string): Promise<Socket[]> {
  const sockets = [...(await connectMany(url, 300, '127.0.0.2')), ...(await connectMany(url, 300, '127.0.0.3'))];
  for (const socket of sockets) socket.resume();
  await until(() => sockets.some(({ closed }) => closed));
  return sockets;
}

/** Asserts that a task is processed, which needs the database, and that the process is ready. */
async function expectTasksServed({ tasks, admin }: RunningServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  await untilTask(tasks, body.id);
  await untilServed(`${admin}/readyz`);
}

/** Asserts that a client can exchange its key and join the stream, which reads the policy file. */
async function expectStreamServed(services: RunningServices): Promise<void> {
  const client = await connectStream(services.stream, { token: await services.token() });
  expect((await client.next()).type).to.equal('welcome');
}

describe('a process with few descriptors', () => {
  const started = onceForSuite(() => startServices({ ...limitedTo(256), env: { MAX_CONNECTIONS: '600' } }));

  afterEach(() => {
    const { lines, errors } = started();
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    expect(errors()).to.equal('');
  });

  it('has fewer connections, which it logs, keeps enough for itself, and opens no file for a slow reader of static files', async () => {
    const services = started();
    const { ticker, tasks, admin } = shareDescriptors(256, defaults.tasks.concurrency);
    expect(openDescriptors(services.child.pid as number) + ticker + tasks + admin).to.be.at.most(256);
    const bounded = services.lines.find((line) => line.openFiles !== undefined);
    expect(bounded).to.include({ openFiles: 256 });
    expect(bounded?.maxConnections).to.be.within(1, 255);
    const requests = head('GET /shared/vendor/uplot.js HTTP/1.1', 'Host: localhost').repeat(99);
    // With a file for each connection, the descriptors would not suffice.
    for (const localAddress of ['127.0.0.2', '127.0.0.3']) {
      for (const socket of await connectMany(services.ticker, 50, localAddress)) {
        socket.write(requests);
        if (!socket.closed) await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
      }
    }
    expect(openFiles(services.child.pid as number).filter((file) => file.includes('/www/'))).to.deep.equal([]);
    await expectTasksServed(services);
    await expectStreamServed(services);
  });

  it('leaves every port open to other addresses while one address sends half of many requests', async () => {
    const { ticker, tasks, admin } = started();
    for (const url of [`${ticker}/`, `${tasks}/queue`, `${admin}/healthz`]) {
      const sockets = await connectMany(url, 500);
      for (const socket of sockets) socket.write('GET / HTTP/1.1\r\nHost');
      const { port, pathname } = new URL(url);
      expect(await statusFrom('127.0.0.2', Number(port), pathname), url).to.equal(200);
      for (const socket of sockets) socket.destroy();
    }
  });

  it('processes tasks while connections fill the ticker, and serves the stream while they fill the task queue', async () => {
    const services = started();
    const toTicker = await fill(services.ticker);
    await expectTasksServed(services);
    const toTasks = await fill(services.tasks);
    await untilServed(`${services.admin}/readyz`);
    for (const socket of toTicker) socket.destroy();
    await untilServed(services.ticker);
    await expectStreamServed(services);
    for (const socket of toTasks) socket.destroy();
    await untilServed(services.tasks);
    await expectTasksServed(services);
  });
});
