import type { RequestListener } from 'node:http';
import type { Socket } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { connectHalfOpen, connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

const fine: RequestListener = (request, response) => {
  request.resume();
  request.once('end', () => response.end('fine'));
};

/** Timeouts that are exceeded by a slow client and by no other. */
const SHORT = { headers: 400, request: 800, check: 50, keepAlive: 50, stalled: 4_000, closing: 200 };

/** Sends one byte every 10 ms. */
function trickle(socket: Socket, byte: string): void {
  const timer = setInterval(() => socket.write(byte), 10);
  afterTest(() => clearInterval(timer));
}

const REQUEST = 'POST / HTTP/1.1\r\nHost: x\r\n';

describe('the listener, with a slow client', () => {
  const slowClients: [what: string, start: string, byte: string, answer: RegExp][] = [
    ['sends nothing', '', '', /^HTTP\/1\.1 408 [\s\S]*{"error":"request timeout"}\n$/],
    ['sends empty lines without end', '', '\r\n', /^HTTP\/1\.1 408 /],
    ['sends a request line without end', 'GET /', 'x', /^HTTP\/1\.1 408 /],
    ['sends headers without end', 'GET / HTTP/1.1\r\n', 'a:\r\n', /^HTTP\/1\.1 408 /],
    ['sends a handshake without end', `${handshake('/').join('\r\n')}\r\n`, 'a:\r\n', /^HTTP\/1\.1 408 /],
    ['sends headers and no body', `${REQUEST}Content-Length: 9\r\n\r\n`, '', /^HTTP\/1\.1 408 /],
    ['sends a body slowly', `${REQUEST}Content-Length: 999999\r\n\r\n`, 'x', /^HTTP\/1\.1 408 /],
    ['sends chunks slowly', `${REQUEST}Transfer-Encoding: chunked\r\n\r\n`, '1\r\nx\r\n', /^HTTP\/1\.1 408 /],
    ['makes no further request', 'GET / HTTP/1.1\r\nHost: x\r\n\r\n', '', /^HTTP\/1\.1 200 [\s\S]*fine$/],
    ['stops in a further request', 'GET / HTTP/1.1\r\nHost: x\r\n\r\nGET', '', /fineHTTP\/1\.1 408 /],
    ['keeps open what was refused', 'garbage\r\n\r\n', '', /^HTTP\/1\.1 400 /],
    ['keeps open what it asked to be closed', 'GET / HTTP/1.0\r\n\r\n', '', /^HTTP\/1\.1 200 /],
  ];
  it('holds nothing of any of them', async () => {
    // The cases run concurrently, so the timeouts can be long enough for a loaded machine.
    const limits = { ...SHORT, headers: 2_000, request: 3_000, keepAlive: 3_000 };
    const expectClosed = async ([what, start, byte, answer]: (typeof slowClients)[number]) => {
      const server = await serve(fine, { timeouts: limits });
      server.listener.server.on('upgrade', () => expect.fail('no handshake was complete'));
      const raw = await connectHalfOpen(server.listener.port);
      raw.socket.write(start);
      if (byte !== '') trickle(raw.socket, byte);
      await until(() => server.sockets.size === 1);
      await until(() => server.sockets.size === 0);
      await raw.until(answer);
      expect((await request(server.url)).body, what).to.equal('fine');
    };
    await Promise.all(slowClients.map(expectClosed));
  });

  for (const [what, rest] of [
    ['a request', 'Host: x\r\n\r\n'],
    ['a handshake', `${handshake('/').slice(1).join('\r\n')}\r\n\r\n`],
  ] as const) {
    it(`does not answer twice when ${what} is complete after it was refused as too late`, async () => {
      const server = await serve(() => expect.fail('handled'), { timeouts: { ...SHORT, closing: 3_600_000 } });
      const raw = await connectHalfOpen(server.listener.port);
      raw.socket.write('GET / HTTP/1.1\r\n');
      await raw.until(/request timeout/);
      raw.socket.write(rest);
      await until(() => server.sockets.size === 0);
      expect((await raw.until(/HTTP/)).match(/HTTP/g)).to.have.lengthOf(1);
    });
  }

  it('holds nothing of one that never reads its answer', async () => {
    const server = await serve((_request, response) => response.end(Buffer.alloc(64 * 1024 * 1024)), {
      timeouts: { ...SHORT, stalled: 400 },
    });
    const { socket } = await connectHalfOpen(server.listener.port, 'GET / HTTP/1.1', 'Host: x');
    socket.pause();
    await until(() => server.sockets.size === 1);
    await until(() => server.sockets.size === 0);
  });

  it('does not look at the time of a connection that has left HTTP', async () => {
    const server = await serve(fine, { timeouts: SHORT });
    const upgraded = new Promise<Socket>((resolve) => {
      server.listener.server.on('upgrade', (_request, socket) => resolve(socket as Socket));
    });
    await connectRaw(server.listener.port, ...handshake('/'));
    const socket = await upgraded;
    // A later connection. It times out first only if no timeout applies to the upgraded one.
    await connectHalfOpen(server.listener.port);
    await until(() => server.sockets.size === 2);
    await until(() => server.sockets.size === 1);
    expect(socket.destroyed).to.equal(false);
  });
});

describe('a handshake with a body', () => {
  it('is a plain request, but one with a body of no bytes is a handshake', async () => {
    const { listener } = await serve(fine);
    let upgrades = 0;
    listener.server.on('upgrade', () => upgrades++);
    for (const [line, body] of [
      ['Content-Length: 3', 'abc'],
      ['Transfer-Encoding: chunked', '3\r\nabc\r\n0\r\n\r\n'],
    ] as const) {
      const raw = await connectRaw(listener.port, ...handshake('/'), line);
      raw.socket.write(body);
      expect(parseResponse(await raw.until(/fine$/)).status).to.equal(200);
    }
    expect(upgrades).to.equal(0);
    await connectRaw(listener.port, ...handshake('/'), 'Content-Length: 0');
    await until(() => upgrades === 1);
  });
});

describe('the listener', () => {
  it('takes as many headers as their size allows, and leaves none out', async () => {
    const { listener } = await serve((request, response) => response.end(request.headers.last));
    const many = Array.from({ length: 2500 }, () => 'a:');
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x', ...many, 'Last: here');
    expect(parseResponse(await raw.until(/here$/)).status).to.equal(200);
  });
});
