import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { post, type RunningServices, request, startProgram, startServices } from '../support/program.ts';
import { head } from '../support/raw-connection.ts';
import { eventually } from '../support/until.ts';
import { connect as connectStream } from '../support/websocket.ts';

/** Options for a process with that limit of open files. */
function limitedTo(openFiles: number): { within: string[] } {
  return { within: ['sh', '-c', 'ulimit -n "$0"; exec "$@"', `${openFiles}`] };
}

/** Opens connections from two addresses that the neighbours do not use. Waits until each is accepted or refused. */
async function connectMany(url: string, count: number): Promise<Socket[]> {
  const port = Number(new URL(url).port);
  const sockets = Array.from({ length: count }, (_, index) => {
    const localAddress = `127.0.0.${2 + (index % 2)}`;
    return connect({ port, host: '127.0.0.1', localAddress }).on('error', () => {});
  });
  afterTest(() => sockets.forEach((socket) => void socket.destroy()));
  await Promise.all(sockets.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
  return sockets;
}

/** Opens more idle connections than the service accepts, and waits until it closes one. */
async function connectUntilFull(url: string, count: number): Promise<Socket[]> {
  const sockets = await connectMany(url, count);
  for (const socket of sockets) socket.resume();
  await eventually(
    () => sockets.some((socket) => socket.closed),
    (full) => full,
  );
  return sockets;
}

/** Opens connections that send `text` and read only the start of the response. */
async function readSlowly(url: string, count: number, text: string): Promise<void> {
  for (const socket of await connectMany(url, count)) {
    socket.write(text);
    if (!socket.closed) await Promise.race([once(socket, 'readable'), once(socket, 'close')]);
  }
}

/** Returns the browser clients' files that the process has open. */
function openStaticFiles({ child }: RunningServices): string[] {
  const folder = `/proc/${child.pid}/fd`;
  return readdirSync(folder)
    .map((fd) => {
      try {
        return readlinkSync(`${folder}/${fd}`);
      } catch {
        // Closed since the folder was read.
        return '';
      }
    })
    .filter((target) => target.includes('/www/'));
}

/** Asserts that the task queue and the admin listener still work. */
async function expectNeighboursServed({ tasks, admin }: RunningServices): Promise<void> {
  const { status, body } = await post(`${tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  await eventually(
    () => request(`${tasks}/tasks/${body.id}`),
    (answer) => answer.body.status === 'completed',
  );
  await eventually(
    () => request(`${admin}/readyz`),
    (answer) => answer.status === 200,
  );
}

/** Asserts that a client can exchange its key and join the stream, which reads the policy file. */
async function expectStream(services: RunningServices): Promise<void> {
  const client = await connectStream(services.stream, { token: await services.token() });
  expect((await client.next()).type).to.equal('welcome');
}

describe('few descriptors', () => {
  it('are not used up by slow readers of static files: no file is open while one is sent', async () => {
    const services = await startServices(limitedTo(256));
    const requests = head('GET /vendor/uplot.js HTTP/1.1', 'Host: localhost').repeat(99);
    // With a file for each connection, the descriptors would not suffice.
    await readSlowly(services.ticker, 100, requests);
    expect(openStaticFiles(services)).to.deep.equal([]);
    await expectNeighboursServed(services);
    await expectStream(services);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  it('suffice for threads, databases and the admin listener while connections fill both services', async () => {
    const services = await startServices(limitedTo(256));
    const toTicker = await connectUntilFull(services.ticker, 300);
    const toTasks = await connectUntilFull(services.tasks, 300);
    // The admin listener responds at once; readiness may need a moment on a loaded machine.
    await request(`${services.admin}/readyz`);
    await eventually(
      () => request(`${services.admin}/readyz`),
      ({ status }) => status === 200,
    );
    for (const socket of toTicker) socket.destroy();
    await eventually(
      () => request(services.ticker).catch(() => undefined),
      (answer) => answer?.status === 200,
    );
    await expectStream(services);
    for (const socket of toTasks) socket.destroy();
    await eventually(
      () => request(services.tasks).catch(() => undefined),
      (answer) => answer?.status === 200,
    );
    await expectNeighboursServed(services);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    expect(services.errors()).to.equal('');
  });

  it('end the start with one line when the process itself needs more', async () => {
    const program = await startProgram(limitedTo(100));
    expect((await program.exited).code).to.equal(1);
    expect(program.lines.at(-1)?.msg).to.match(
      /^the limit of open files is 100: raise it to at least \d+ \(ulimit -n\)$/,
    );
  });
});
