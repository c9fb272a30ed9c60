import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';

/** A real process that may have 512 descriptors. */
function startPoor(): Promise<RunningServices> {
  return startServices({ node: '/bin/bash', nodeOptions: ['-c', 'ulimit -n 512; exec "$0" "$@"', process.execPath] });
}

/** Opens connections that send nothing, and waits until each is connected or refused. */
async function crowd(url: string, count: number): Promise<Socket[]> {
  const port = Number(new URL(url).port);
  const sockets = Array.from({ length: count }, () => connect(port, '127.0.0.1').on('error', () => {}));
  afterTest(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
  return sockets;
}

/** Waits until the service answers again. */
async function answers(url: string): Promise<void> {
  while ((await request(url).catch(() => undefined)) === undefined);
}

/** Works one task off, which takes the database. */
async function work({ tasks }: RunningServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  while (!(await request(`${tasks}/tasks`)).body.tasks.some(({ id }: { id: string }) => id === body.id));
}

describe('more connections than there are descriptors', () => {
  it('to one service leave the other one unharmed, and the first as soon as they are gone', async () => {
    const services = await startPoor();
    const toTicker = await crowd(services.ticker, 600);
    await work(services);
    for (const socket of toTicker) socket.destroy();
    await answers(services.ticker);

    const toTasks = await crowd(services.tasks, 600);
    expect(await services.token()).to.be.a('string');
    for (const socket of toTasks) socket.destroy();
    await answers(services.tasks);
    await work(services);

    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    expect(services.errors()).to.equal('');
    const bounded = services.lines.find(({ openFiles }) => openFiles !== undefined);
    expect(bounded).to.include({ openFiles: 512, maxConnections: 336 });
  });
});
