import { existsSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import { jsonHeaders } from '../../main/http/json-reply.ts';
import { listen } from '../../main/http/listener.ts';
import { checkPorts } from '../../main/http/port-check.ts';
import { afterTest } from '../support/cleanup.ts';
import { parseResponses } from '../support/http-responses.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, head, parseResponse } from '../support/raw-connection.ts';
import { fine, serve, serveSlowly } from '../support/server.ts';
import { until } from '../support/until.ts';

describe('the listener', () => {
  it('listens on every interface when no host is given', async () => {
    const listener = await listen(fine, { host: undefined, port: 0 });
    afterTest(() => listener.close(Promise.resolve()));
    expect(['::', '0.0.0.0']).to.include(listener.host);
    expect((await request(`http://127.0.0.1:${listener.port}`)).body).to.equal('fine');
  });

  it('whose address is taken is named, and not one with the same port on another address', async () => {
    const { port } = (await serve(fine)).listener;
    const planned = (name: string, host: string) => ({
      ...{ host, port, variables: { host: `${name}_HOST`, port: `${name}_PORT` } },
    });
    const failure = checkPorts([planned('A', '127.0.0.2'), planned('B', '127.0.0.1')]);
    expect((await failure.catch((error) => error)).message).to.match(/^port \d+ is in use: .*B_PORT/);
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
});

const BODY = '{"action":"x"}';
const post = (...lines: string[]) => head('POST / HTTP/1.1', ...lines) + BODY;

/** Requests that are none, or that a proxy may parse differently from the server behind it. */
const malformed: Record<string, string> = {
  noise: '\x16\x03\x01\x02\x00\x01\r\n\r\n',
  'another protocol': 'SSH-2.0-x\r\n\r\n',
  'no such version': 'GET / HTTP/9.9\r\n\r\n',
  'a broken header': 'GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n',
  'a length and chunks': post('Host: x', `Content-Length: ${BODY.length}`, 'Transfer-Encoding: chunked'),
  'chunks and a length': post('Host: x', 'Transfer-Encoding: chunked', `Content-Length: ${BODY.length}`),
  'two lengths': post('Host: x', 'Content-Length: 14', 'Content-Length: 15'),
  'a list of lengths': post('Host: x', 'Content-Length: 14, 15'),
  'a signed length': post('Host: x', 'Content-Length: +14'),
  'a length in hexadecimal': post('Host: x', 'Content-Length: 0xe'),
  'a length that is too large': post('Host: x', 'Content-Length: 99999999999999999999'),
  'chunked, not last': post('Host: x', 'Transfer-Encoding: chunked, identity'),
  'an unknown coding': post('Host: x', 'Transfer-Encoding: xchunked'),
  'a space before the colon': post('Host: x', 'Content-Length : 14'),
  'a folded header': post('Host: x', 'X-Folded: a', ' b', 'Content-Length: 14'),
  'a header without a name': post('Host: x', ': a', 'Content-Length: 14'),
  'a NUL in a header': post('Host: x', 'X-Nul: a\0b', 'Content-Length: 14'),
};

describe('bytes that are no HTTP request, or one that can be read in two ways', () => {
  it('are answered once with 400, end the connection, and nothing after them is handled', async () => {
    const complete = mock.fn();
    const { listener } = await serve((request) => request.resume().once('end', complete));
    for (const [what, text] of Object.entries(malformed)) {
      const raw = await connectRaw(listener.port);
      raw.socket.write(text + post('Host: x', `Content-Length: ${BODY.length}`));
      const answers = await raw.ended;
      expect(answers.match(/HTTP\/1\.1 /g), what).to.have.length(1);
      const { status, headers, body } = parseResponse(answers);
      expect([status, body], what).to.deep.equal([400, '{"error":"bad request"}\n']);
      for (const [name, value] of Object.entries({ ...jsonHeaders, Connection: 'close' }))
        expect(headers, what).to.include(`\r\n${name}: ${value}`);
    }
    expect(complete.mock.callCount()).to.equal(0);
  });

  it('are answered once where a line ends without a carriage return', async () => {
    const { listener } = await serve(fine);
    const lines = ['GET / HTTP/1.1', 'Host: x\nX-Next: y', 'Connection: close'];
    const { socket, ended } = await connectRaw(listener.port, ...lines);
    socket.end();
    expect((await ended).match(/HTTP\/1\.1 /g)).to.have.length(1);
  });

  it('are answered with 431 when the headers are too large', async () => {
    const { listener } = await serve(fine);
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x', `Large: ${'x'.repeat(20_000)}`);
    const { status, body } = parseResponse(await raw.ended);
    expect({ status, body }).to.deep.equal({ status: 431, body: '{"error":"request headers too large"}\n' });
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

describe('a request with an expectation', () => {
  const expecting = ['POST / HTTP/1.1', 'Host: x', 'Content-Length: 1', 'Expect: 100-continue'];

  it('may send its body after 100', async () => {
    const { listener } = await serve((request, response) => request.resume().once('end', () => response.end('fine')));
    const raw = await connectRaw(listener.port, ...expecting);
    await raw.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    raw.socket.write('x');
    expect(parseResponses(await raw.until(/fine/)).responses.map(({ status }) => status)).to.deep.equal([100, 200]);
  });

  it('that nobody can meet is answered with 417', async () => {
    const { listener } = await serve(fine);
    const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x', 'Expect: wonders');
    const { status, headers, body } = parseResponse(await raw.ended);
    expect([status, body]).to.deep.equal([417, '{"error":"expectation failed"}\n']);
    expect(headers).to.include('application/json');
  });
});

describe('a wish to upgrade', () => {
  it('is ignored without an upgrade listener, to anything but WebSocket, and with a method other than GET', async () => {
    const { listener } = await serve(fine);
    const plain = async (...lines: string[]) => {
      const raw = await connectRaw(listener.port, ...lines);
      expect(await raw.until(/fine$/), lines.join()).to.match(/^HTTP\/1\.1 200 /);
    };
    await plain(...handshake('/'));
    let upgrades = 0;
    listener.server.on('upgrade', (_request, socket) => {
      upgrades++;
      socket.destroy();
    });
    for (const protocol of ['h2c', 'TLS/1.0', 'websocket2', 'h2c, websocket'])
      await plain('GET / HTTP/1.1', 'Host: x', 'Connection: Upgrade', `Upgrade: ${protocol}`);
    await plain('POST / HTTP/1.1', ...handshake('/').slice(1), 'Content-Length: 0');
    expect(upgrades).to.equal(0);
    await connectRaw(listener.port, ...handshake('/'));
    await until(() => upgrades === 1);
  });
});

describe('the host of a request', () => {
  const refused: [what: string, lines: string[]][] = [
    ['none', []],
    ['two', ['Host: x', 'Host: x']],
    ['two in different case', ['host: x', 'HOST: y']],
    ['an empty one', ['Host: ']],
    ['a list', ['Host: x, y']],
    ['a space', ['Host: a b']],
    ['a path', ['Host: x/y']],
    ['a user', ['Host: user@x']],
    ['another scheme', ['Host: http://x']],
    ['a port that is no number', ['Host: x:y']],
    ['two ports', ['Host: x:1:2']],
    ['a port out of range', ['Host: x:65536']],
    ['an open bracket', ['Host: [::1']],
    ['no address in brackets', ['Host: [x]']],
    ['an address without brackets', ['Host: ::1']],
    ['a byte beyond ASCII', ['Host: \u00e9']],
  ];
  it('is required once and valid, or the answer is 400 and the connection ends', async () => {
    const { listener } = await serve(() => expect.fail('handled'));
    listener.server.on('upgrade', () => expect.fail('upgraded'));
    const [first = '', , ...upgrade] = handshake('/');
    for (const [what, hosts] of refused) {
      for (const lines of [
        ['GET / HTTP/1.1', ...hosts],
        [first, ...hosts, ...upgrade],
      ]) {
        const raw = await connectRaw(listener.port, ...lines);
        const { status, body, headers } = parseResponse(await raw.ended);
        expect([status, body], what).to.deep.equal([400, '{"error":"bad request"}\n']);
        expect(headers, what).to.match(/\r\nConnection: close/);
      }
    }
  });

  it('may be any name or address, with or without a port', async () => {
    const { listener } = await serve(fine);
    const names = ['x', 'x:', 'a.example.', 'A-b_c.example:80'];
    for (const host of [...names, '127.0.0.1:65535', '[::1]', '[2001:db8::1]:8080']) {
      const raw = await connectRaw(listener.port, 'GET / HTTP/1.1', `Host: ${host}`);
      expect(await raw.until(/fine$/), host).to.match(/^HTTP\/1\.1 200 /);
    }
  });

  it('may be absent in HTTP/1.0, and must be valid there, too', async () => {
    const { listener } = await serve(fine);
    const without = await connectRaw(listener.port, 'GET / HTTP/1.0');
    expect(await without.ended).to.match(/^HTTP\/1\.1 200 [\s\S]*fine$/);
    const two = await connectRaw(listener.port, 'GET / HTTP/1.0', 'Host: x', 'Host: y');
    expect(parseResponse(await two.ended).status).to.equal(400);
  });
});
