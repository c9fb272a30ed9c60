import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { countTurns } from '../support/event-loop-turns.ts';
import { parseResponses } from '../support/http-responses.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, head } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

describe('requests that are sent without waiting for the answers', () => {
  const three = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(3);

  it('are handled one after another, and not at all once the client is gone', async () => {
    const held: ServerResponse[] = [];
    const { listener, url, sockets } = await serve((_request, response) => held.push(response));
    const raw = await connectRaw(listener.port);
    raw.socket.write(three);
    await until(() => held.length === 1);
    held[0]?.end('1');
    await until(() => held.length === 2);
    raw.socket.resetAndDestroy();
    await until(() => sockets.size === 0);
    const other = request(url);
    await until(() => held.length === 3);
    held[2]?.end('other');
    expect((await other).body).to.equal('other');
    expect(held).to.have.lengthOf(3);
  });

  it('are not worked on behind one whose answer ends the connection', async () => {
    let asked = 0;
    const { listener, sockets } = await serve((_request, response) => {
      asked += 1;
      response.setHeader('Connection', 'close').end('last');
    });
    const raw = await connectRaw(listener.port);
    raw.socket.write(three);
    expect(await raw.ended).to.match(/last$/);
    await until(() => sockets.size === 0);
    expect(asked).to.equal(1);
  });
});

describe('pipelined requests', () => {
  it('are begun in turns of the event loop of their own, so that others are served in between', async () => {
    const turn = countTurns();
    const turns: number[] = [];
    const { listener } = await serve((_request, response) => {
      turns.push(turn());
      response.end('fine');
    });
    const { socket } = await connectRaw(listener.port);
    socket.write(head('GET / HTTP/1.1', 'Host: localhost').repeat(10));
    await until(() => turns.length === 10);
    expect(new Set(turns).size).to.equal(10);
  });
});

describe('a pipelined upgrade', () => {
  /** Starts a listener that holds its responses and records the paths of upgrades. */
  async function startHeld() {
    const held: ServerResponse[] = [];
    const upgraded: (string | undefined)[] = [];
    const server = await serve((_request, response) => held.push(response));
    server.listener.server.on('upgrade', ({ url }, socket) => {
      upgraded.push(url);
      socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n');
    });
    return { ...server, held, upgraded };
  }
  const upgrade = head(...handshake('/stream'));

  it('is refused with 400 after the outstanding answers, and ends the connection', async () => {
    const { listener, held, upgraded, sockets } = await startHeld();
    const raw = await connectRaw(listener.port);
    raw.socket.write(`GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n${upgrade}`);
    await until(() => held.length === 1);
    held[0]?.end('first');
    await until(() => held.length === 2);
    held[1]?.end('second');
    const { responses } = parseResponses(await raw.ended);
    expect(responses.map(({ status, body }) => [status, body])).to.deep.equal([
      [200, 'first'],
      [200, 'second'],
      [400, '{"error":"bad request"}\n'],
    ]);
    expect(responses[2]?.headers.get('connection')).to.equal('close');
    expect(upgraded).to.deep.equal([]);
    await until(() => sockets.size === 0);
  });

  it('is refused, too, when it comes in the middle of an answer', async () => {
    const { listener, held, upgraded, sockets } = await startHeld();
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    await until(() => held.length === 1);
    held[0]?.write('fi');
    await raw.until(/fi\r\n$/);
    const [socket] = sockets;
    const before = socket?.bytesRead ?? 0;
    // A frame sent as if the upgrade had succeeded.
    const frame = Buffer.from('818500000000', 'hex');
    raw.socket.write(Buffer.concat([Buffer.from(upgrade), frame, Buffer.from('hello')]));
    await until(() => (socket?.bytesRead ?? 0) > before);
    held[0]?.end('rst');
    const { responses } = parseResponses(await raw.ended);
    expect(responses.map(({ status, body }) => [status, body])).to.deep.equal([
      [200, 'first'],
      [400, '{"error":"bad request"}\n'],
    ]);
    expect(upgraded).to.deep.equal([]);
  });

  it('that arrives after the last answer leaves HTTP', async () => {
    const { listener, held, upgraded } = await startHeld();
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    await until(() => held.length === 1);
    held[0]?.end('first');
    await raw.until(/first$/);
    raw.socket.write(upgrade);
    expect(await raw.ended).to.match(/firstHTTP\/1\.1 101 /);
    expect(upgraded).to.deep.equal(['/stream']);
  });
});
