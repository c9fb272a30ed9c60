import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import type { RequestListener } from 'node:http';
import { connect, Socket } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import { jsonHeaders } from '../../main/http/json-reply.ts';
import { listen, timeouts } from '../../main/http/listener.ts';
import { checkPorts, type PlannedListener } from '../../main/http/port-check.ts';
import { READING_MS } from '../../main/http/turn-limit.ts';
import { afterTest } from '../support/cleanup.ts';
import { freePort } from '../support/free-port.ts';
import { parseResponses } from '../support/http-responses.ts';
import { request } from '../support/program.ts';
import { connectHalfOpen, connectRaw, handshake, head, parseResponse } from '../support/raw-connection.ts';
import { fine, serve, serveSlowly } from '../support/server.ts';
import { until } from '../support/until.ts';

const fineAfterBody: RequestListener = (request, response) => {
  request.resume();
  request.once('end', () => response.end('fine'));
};

/** Sends these lines. Returns the answer, after which the server must end the connection. */
async function answerTo({ listener }: Awaited<ReturnType<typeof serve>>, ...lines: string[]) {
  return parseResponse(await (await connectRaw(listener.port, ...lines)).ended);
}

describe('the listener', () => {
  it('listens on every interface when no host is given', async () => {
    const listener = await listen(fine, { host: undefined, port: 0 });
    afterTest(() => listener.close(Promise.resolve()));
    expect(['::', '0.0.0.0']).to.include(listener.host);
    expect((await request(`http://127.0.0.1:${listener.port}`)).body).to.equal('fine');
  });

  it('whose address is taken is named, and not one with the same port on another address, and two that exclude each other are both named', async () => {
    const planned = (name: string, host: string | undefined, port: number) => ({
      ...{ host, port, variables: { host: `${name}_HOST`, port: `${name}_PORT` } },
    });
    const failure = (...all: PlannedListener[]) => checkPorts(all).catch(({ message }) => message);
    const { port } = (await serve(fine)).listener;
    const taken = await failure(planned('A', '127.0.0.2', port), planned('B', '127.0.0.1', port));
    expect(taken).to.match(/^port \d+ is in use: .*B_PORT/);
    const free = await freePort();
    const both = await failure(planned('A', undefined, free), planned('B', '127.0.0.1', free));
    expect(both).to.match(/^A_PORT and B_PORT are both \d+/);
  });

  it('queues a thousand connections that arrive together', async function () {
    const limit = '/proc/sys/net/core/somaxconn';
    if (!existsSync(limit)) this.skip();
    const openFiles = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    if (Number(readFileSync(limit, 'utf8')) < 1000 || Number(openFiles) < 3000) this.skip();
    const { listener } = await serve(fine);
    const clients = Array.from({ length: 1000 }, () => connect(listener.port, '127.0.0.1').on('error', () => {}));
    afterTest(() => clients.forEach((client) => void client.destroy()));
    // The clients connect before this promise is fulfilled, and none is accepted in this event loop turn.
    await new Promise((resolve) => process.nextTick(resolve, undefined));
    const port = listener.port.toString(16).padStart(4, '0').toUpperCase();
    const table = readFileSync('/proc/net/tcp', 'utf8');
    const [established, waiting] = ['01', '02'].map((state) => table.split(` 0100007F:${port} ${state}`).length - 1);
    expect(waiting).to.equal(0);
    // Reading the table is not atomic, so rows may be missing.
    expect(established).to.be.above(900);
  });

  it('takes as many headers as their size allows, and leaves none out', async () => {
    const server = await serve((request, response) => response.end(request.headers.last));
    const many = Array.from({ length: 2500 }, () => 'a:');
    const lines = ['GET / HTTP/1.1', 'Host: x', 'Connection: close', ...many, 'Last: here'];
    expect(await answerTo(server, ...lines)).to.include({ status: 200, body: 'here' });
  });
});

const BODY = '{"action":"x"}';
const post = (...lines: string[]) => head('POST / HTTP/1.1', ...lines) + BODY;

/** Requests that are none, or that a proxy may parse differently from the server behind it. */
const malformed = [
  ...['\x16\x03\x01\x02\x00\x01', 'SSH-2.0-x', 'GET / HTTP/9.9', 'GET / HTTP/1.1\r\nHost: x\r\nbad header'].map(
    (text) => `${text}\r\n\r\n`,
  ),
  ...[
    [`Content-Length: ${BODY.length}`, 'Transfer-Encoding: chunked'],
    ['Transfer-Encoding: chunked', `Content-Length: ${BODY.length}`],
    ['Content-Length: 14', 'Content-Length: 15'],
    ...['14, 15', '+14', '0xe', '99999999999999999999'].map((length) => [`Content-Length: ${length}`]),
    ...['chunked, identity', 'xchunked'].map((coding) => [`Transfer-Encoding: ${coding}`]),
    ['Content-Length : 14'],
    ...['X-Folded: a\r\n b', ': a', 'X-Nul: a\0b', 'X-Bare-LF: a\nb: c'].map((line) => [line, 'Content-Length: 14']),
  ].map((lines) => post('Host: x', ...lines)),
];

describe('bytes that are no HTTP request, or one that can be read in two ways', () => {
  it('are answered once with 400, end the connection, and nothing after them is handled', async () => {
    const complete = mock.fn();
    const { listener } = await serve((request) => request.resume().once('end', complete));
    for (const text of malformed) {
      const raw = await connectRaw(listener.port);
      raw.socket.write(text + post('Host: x', `Content-Length: ${BODY.length}`));
      const answers = await raw.ended;
      expect(answers.match(/HTTP\/1\.1 /g), text).to.have.length(1);
      const { status, headers, body } = parseResponse(answers);
      expect([status, body], text).to.deep.equal([400, '{"error":"bad request"}\n']);
      for (const [name, value] of Object.entries({ ...jsonHeaders, Connection: 'close' }))
        expect(headers, text).to.include(`\r\n${name}: ${value}`);
    }
    expect(complete.mock.callCount()).to.equal(0);
    const raw = await connectRaw(listener.port);
    raw.socket.write('garbage\r\n\r\n');
    const [error, socket] = await once(listener.server, 'clientError');
    const { mock: reset } = mock.method(socket, 'destroy');
    listener.server.emit('clientError', error, socket);
    expect(reset.callCount(), 'resets after a second error of the parser').to.equal(0);
  });

  it('are answered with 431 when the headers are too large', async () => {
    const large = `Large: ${'x'.repeat(20_000)}`;
    const answer = await answerTo(await serve(fine), 'GET / HTTP/1.1', 'Host: x', large);
    expect(answer).to.include({ status: 431, body: '{"error":"request headers too large"}\n' });
  });

  it('in the body of a request are answered once', async () => {
    const { listener } = await serve((request, response) => {
      request.on('error', () => response.end('too late')).resume();
    });
    const raw = await connectRaw(listener.port, 'POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked');
    raw.socket.write('no chunk\r\n');
    const answer = await raw.ended;
    expect(parseResponse(answer)).to.deep.include({ status: 400, body: '{"error":"bad request"}\n' });
    expect(answer.match(/HTTP\/1\.1/g)).to.have.lengthOf(1);
  });

  it('are answered after the request before them', async () => {
    const { listener, asked } = await serveSlowly();
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    const response = await asked;
    raw.socket.write('garbage\r\n\r\nmore of it\r\n\r\n');
    response.write('fi');
    await raw.until(/fi\r\n$/);
    response.end('rst');
    const bodies = parseResponses(await raw.ended).responses.map(({ body }) => body);
    expect(bodies).to.deep.equal(['first', '{"error":"bad request"}\n']);
  });

  it('are not answered in the middle of another response, nor do they wait for it forever', async () => {
    const { listener, asked } = await serveSlowly({ timeouts: { closing: 50 } });
    const raw = await connectRaw(listener.port, 'POST / HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked');
    const response = await asked;
    response.writeHead(200, { 'Content-Length': 10 });
    response.write('12345');
    await raw.until(/12345$/);
    raw.socket.write('no chunk\r\n\r\n');
    expect(await raw.ended).to.match(/\r\n\r\n12345$/);
  });
});

describe('a request', () => {
  const expecting = ['POST / HTTP/1.1', 'Host: x', 'Content-Length: 1', 'Expect: 100-continue'];

  it('with an expectation may send its body after 100', async () => {
    const { listener } = await serve(fineAfterBody);
    const raw = await connectRaw(listener.port, ...expecting);
    await raw.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    raw.socket.write('x');
    expect(parseResponses(await raw.until(/fine/)).responses.map(({ status }) => status)).to.deep.equal([100, 200]);
  });

  it('with an expectation that nobody can meet is answered with 417', async () => {
    const answer = await answerTo(await serve(fine), 'GET / HTTP/1.1', 'Host: x', 'Expect: wonders');
    expect(answer).to.include({ status: 417, body: '{"error":"expectation failed"}\n' });
    expect(answer.headers).to.include('application/json');
  });

  it('to upgrade is answered like others without an upgrade listener, to anything but WebSocket, with a method other than GET, and with a body', async () => {
    const { listener } = await serve(fineAfterBody);
    const expectIgnored = async (lines: string[], body = '') => {
      const raw = await connectRaw(listener.port, ...lines);
      raw.socket.write(body);
      expect(await raw.until(/fine$/), lines.join()).to.match(/^HTTP\/1\.1 200 /);
    };
    await expectIgnored(handshake('/'));
    let upgrades = 0;
    listener.server.on('upgrade', (_request, socket) => {
      upgrades++;
      socket.destroy();
    });
    for (const protocol of ['h2c', 'TLS/1.0', 'websocket2', 'h2c, websocket'])
      await expectIgnored(['GET / HTTP/1.1', 'Host: x', 'Connection: Upgrade', `Upgrade: ${protocol}`]);
    await expectIgnored(['POST / HTTP/1.1', ...handshake('/').slice(1), 'Content-Length: 0']);
    await expectIgnored([...handshake('/'), 'Content-Length: 3'], 'abc');
    await expectIgnored([...handshake('/'), 'Transfer-Encoding: chunked'], '3\r\nabc\r\n0\r\n\r\n');
    expect(upgrades).to.equal(0);
    await connectRaw(listener.port, ...handshake('/'), 'Content-Length: 0');
    await until(() => upgrades === 1);
  });
});

describe('the host of a request', () => {
  const values = ['', 'x, y', 'a b', 'x/y', 'user@x', 'http://x', 'x:y', 'x:1:2', 'x:65536', '[::1', '[x]', '::1', 'é'];
  const refused = [[], ['Host: x', 'Host: x'], ['host: x', 'HOST: y'], ...values.map((value) => [`Host: ${value}`])];
  it('is required once and valid, or the answer is 400 and the connection ends', async () => {
    const server = await serve(() => expect.fail('handled'));
    server.listener.server.on('upgrade', () => expect.fail('upgraded'));
    const [first = '', , ...upgrade] = handshake('/');
    for (const hosts of refused)
      for (const lines of [
        ['GET / HTTP/1.1', ...hosts],
        [first, ...hosts, ...upgrade],
      ]) {
        const answer = await answerTo(server, ...lines);
        expect(answer, hosts.join()).to.include({ status: 400, body: '{"error":"bad request"}\n' });
        expect(answer.headers, hosts.join()).to.match(/\r\nConnection: close/);
      }
  });

  it('may be any name or address, with or without a port, or absent in HTTP/1.0', async () => {
    const server = await serve(fine);
    const names = ['x', 'x:', 'a.example.', 'A-b_c.example:80'];
    for (const host of [...names, '127.0.0.1:65535', '[::1]', '[2001:db8::1]:8080']) {
      const raw = await connectRaw(server.listener.port, 'GET / HTTP/1.1', `Host: ${host}`);
      expect(await raw.until(/fine$/), host).to.match(/^HTTP\/1\.1 200 /);
    }
    expect(await answerTo(server, 'GET / HTTP/1.0')).to.include({ status: 200, body: 'fine' });
    expect((await answerTo(server, 'GET / HTTP/1.0', 'Host: x', 'Host: y')).status).to.equal(400);
  });
});

/** Timeouts that are exceeded by a slow client and by no other. */
const SHORT = { headers: 400, request: 800, check: 50, keepAlive: 50, stalled: 4_000, closing: 200 };

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
    expect(timeouts).to.include({ check: 1_000, keepAlive: 5_000, stalled: 60_000, closing: 5_000 });
    // The cases run concurrently, so the timeouts can be long enough for a loaded machine.
    const limits = { ...SHORT, headers: 2_000, request: 3_000, keepAlive: 3_000 };
    const { mock: added } = mock.method(Map.prototype, 'set');
    const expectClosed = async ([what, start, byte, answer]: (typeof slowClients)[number]) => {
      const server = await serve(fineAfterBody, { timeouts: limits });
      server.listener.server.on('upgrade', () => expect.fail('no handshake was complete'));
      const raw = await connectHalfOpen(server.listener.port);
      raw.socket.write(start);
      const timer = byte === '' ? undefined : setInterval(() => raw.socket.write(byte), 10);
      afterTest(() => clearInterval(timer));
      await until(() => server.sockets.size === 1);
      await until(() => server.sockets.size === 0);
      await raw.until(answer);
      expect((await request(server.url)).body, what).to.equal('fine');
      await until(() => server.sockets.size === 0);
    };
    await Promise.all(slowClients.map(expectClosed));
    const ofClients = added.calls.filter(({ arguments: [key] }) => key instanceof Socket || key === '127.0.0.1');
    expect(ofClients.filter((call) => (call.this as Map<unknown, unknown>).has(call.arguments[0]))).to.deep.equal([]);
  });

  for (const [what, rest] of Object.entries({ 'a request': ['Host: x'], 'a handshake': handshake('/').slice(1) }))
    it(`does not answer twice when ${what} is complete after it was refused as too late`, async () => {
      const server = await serve(() => expect.fail('handled'), { timeouts: { ...SHORT, closing: 3_600_000 } });
      const raw = await connectHalfOpen(server.listener.port);
      raw.socket.write('GET / HTTP/1.1\r\n');
      await raw.until(/request timeout/);
      raw.socket.write(head(...rest));
      await until(() => server.sockets.size === 0);
      expect((await raw.until(/HTTP/)).match(/HTTP/g)).to.have.lengthOf(1);
    });

  it('holds nothing of one that never reads its answer', async () => {
    const server = await serve((_request, response) => response.end(Buffer.alloc(64 * 1024 * 1024)), {
      timeouts: { ...SHORT, stalled: 400 },
    });
    (await connectHalfOpen(server.listener.port, 'GET / HTTP/1.1', 'Host: x')).socket.pause();
    await until(() => server.sockets.size === 1);
    await until(() => server.sockets.size === 0);
  });

  it('neither pauses nor ends a connection that has left HTTP', async () => {
    const server = await serve(fineAfterBody, { timeouts: SHORT });
    const upgraded = new Promise<Socket>((resolve) => {
      server.listener.server.on('upgrade', (_request, socket) => resolve(socket as Socket));
    });
    await connectRaw(server.listener.port, ...handshake('/'));
    const socket = await upgraded;
    const { mock: pauses } = mock.method(Socket.prototype, 'pause');
    let now = 0;
    mock.method(performance, 'now', () => {
      now += READING_MS;
      return now;
    });
    const raw = await connectRaw(server.listener.port);
    raw.socket.write(`${REQUEST}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n`);
    await raw.ended;
    expect(new Set(pauses.calls.map((call) => call.this === socket))).to.deep.equal(new Set([false]));
    // A later connection. It times out first only if no timeout applies to the upgraded one.
    await connectHalfOpen(server.listener.port);
    await until(() => server.sockets.size === 2);
    await until(() => server.sockets.size === 1);
    expect(socket.destroyed).to.equal(false);
  });
});

const never = new Promise<void>(() => {});

describe('a listener that closes', () => {
  it('ends idle connections at once, and takes no more connections', async () => {
    const { listener } = await serve(fine);
    const idle = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    await idle.until(/fine$/);
    await listener.close(never);
    await idle.ended;
    expect(await connectRaw(listener.port).catch((reason) => reason)).to.include({ code: 'ECONNREFUSED' });
  });

  it('waits for requests that are open, and asks their clients to close', async () => {
    const { listener, asked, sockets } = await serveSlowly();
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    const response = await asked;
    const idle = await connectRaw(listener.port);
    await until(() => sockets.size === 2);
    let closed = false;
    const closing = listener.close(never).then(() => {
      closed = true;
    });
    await idle.ended;
    expect(closed).to.equal(false);
    await once(response.end('done'), 'close');
    expect(await raw.ended).to.match(/connection: close[\s\S]*done$/i);
    await closing;
  });

  it('closes the connection of a response that had begun once the response has ended', async () => {
    const { listener, asked } = await serveSlowly({ timeouts: { keepAlive: 3_600_000 } });
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
    const response = await asked;
    response.write('do');
    const closing = listener.close(never);
    response.end('ne');
    expect(await raw.ended).to.match(/keep-alive[\s\S]*do[\s\S]*ne/);
    await closing;
  });

  it('answers a request that is under way', async () => {
    const { listener, sockets } = await serve(fine);
    const raw = await connectRaw(listener.port);
    raw.socket.write('GET / HTTP/1.1\r\nHo');
    await until(() => [...sockets].some((socket) => socket.bytesRead > 0));
    const closing = listener.close(never);
    raw.socket.write('st: x\r\n\r\n');
    expect(await raw.ended).to.match(/^HTTP\/1\.1 200 [\s\S]*connection: close[\s\S]*fine$/i);
    await closing;
  });
});
