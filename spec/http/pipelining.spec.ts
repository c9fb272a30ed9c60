import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { READING_MS } from '../../main/http/turn-limit.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, head } from '../support/raw-connection.ts';
import { serve, statusFrom } from '../support/server.ts';
import { until } from '../support/until.ts';

const plain = head('GET / HTTP/1.1', 'Host: localhost');

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

describe('a connection', () => {
  const handshakeAndFrame = `${head(...handshake('/stream'))}\x81\x85\0\0\0\0hello`;
  for (const [what, second] of [
    ['a request', plain],
    ['thousands of requests', plain.repeat(5000)],
    ['a request that expects 100', head('POST / HTTP/1.1', 'Host: x', 'Content-Length: 1', 'Expect: 100-continue')],
    ['a request that expects something else', head('GET / HTTP/1.1', 'Host: x', 'Expect: wonders')],
    ['a handshake and a frame', handshakeAndFrame],
  ] as const) {
    it(`is closed, and nothing more handled, by what follows an unanswered request, in its packet or later: ${what}`, async () => {
      const { listener, url, held, upgraded, sockets } = await startHeld();
      const same = await connectRaw(listener.port);
      same.socket.write(Buffer.from(plain + second, 'latin1'));
      expect(await same.ended).to.equal('');
      const later = await connectRaw(listener.port, 'GET / HTTP/1.1', 'Host: x');
      await until(() => held.length === 2);
      held[1]?.write('fi');
      await later.until(/fi\r\n$/);
      later.socket.write(Buffer.from(second, 'latin1'));
      expect(await later.ended).to.match(/fi\r\n$/);
      await until(() => sockets.size === 0 && held.every(({ closed }) => closed));
      const other = request(url);
      await until(() => held.length === 3);
      held[2]?.end('fine');
      expect((await other).body).to.equal('fine');
      expect(upgraded).to.deep.equal([]);
    });
  }

  it('may carry a request after the previous response, and then a handshake', async () => {
    const { listener, held, upgraded } = await startHeld();
    const raw = await connectRaw(listener.port);
    for (const [index, text] of ['first', 'second'].entries()) {
      raw.socket.write(plain);
      await until(() => held.length === index + 1);
      held[index]?.end(text);
      await raw.until(new RegExp(`${text}$`));
    }
    raw.socket.write(head(...handshake('/stream')));
    expect(await raw.ended).to.match(/secondHTTP\/1\.1 101 /);
    expect(upgraded).to.deep.equal(['/stream']);
  });

  it('that sends much at once, with many others, delays no other address, although its data is discarded', async () => {
    const CONNECTIONS = 20;
    const CHUNK = 65_536;
    let received = 0;
    const { listener } = await serve((request, response) => {
      const count = ({ length }: Buffer) => {
        // Blocks the event loop.
        for (const end = performance.now() + READING_MS; performance.now() < end; );
        received += length / CHUNK;
      };
      request.once('resume', () => request.on('data', count));
      response.end('fine');
    });
    const start = head('POST / HTTP/1.1', 'Host: x', `Content-Length: ${20 * CHUNK}`);
    for (let count = 0; count < CONNECTIONS; count++)
      (await connectRaw(listener.port)).socket.write(start + 'x'.repeat(20 * CHUNK));
    await until(() => received > 2);
    const before = received;
    expect(await statusFrom('127.0.0.2', listener.port)).to.equal(200);
    expect(received - before).to.be.below(CONNECTIONS);
    // More than the first data of each body.
    await until(() => received > 2 * CONNECTIONS);
  });
});
