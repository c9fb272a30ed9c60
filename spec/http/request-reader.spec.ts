import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { expect } from 'chai';
import { REQUESTS_PER_TURN } from '../../main/http/request-order.ts';
import { BODY_BYTES_PER_TURN } from '../../main/http/request-reader.ts';
import { countTurns } from '../support/event-loop-turns.ts';
import { parseResponses } from '../support/http-responses.ts';
import { connectRaw, head } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { until } from '../support/until.ts';

const get = head('GET / HTTP/1.1', 'Host: localhost');
const closing = head('GET / HTTP/1.1', 'Host: localhost', 'Connection: close');

/** Starts a listener that responds with the request's body, and records the turn in which Node emits each request. */
async function startRecording() {
  const turn = countTurns();
  const emitted: number[] = [];
  const server = await serve((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part)).once('end', () => response.end(Buffer.concat(parts)));
  });
  server.listener.server.prependListener('request', () => emitted.push(turn()));
  return { ...server, emitted };
}

describe('the requests of one packet', () => {
  it('are parsed in turns of their own, however many there are', async () => {
    const { listener, emitted } = await startRecording();
    const raw = await connectRaw(listener.port);
    raw.socket.write(get.repeat(1000) + closing);
    const { responses } = parseResponses(await raw.ended);
    expect(responses).to.have.length(1001);
    expect(new Set(emitted).size).to.equal(1001);
  });

  it('are not parsed while a response is outstanding', async () => {
    const held: ServerResponse[] = [];
    const { listener, sockets } = await serve((_request, response) => held.push(response));
    let emitted = 0;
    listener.server.prependListener('request', () => emitted++);
    const raw = await connectRaw(listener.port);
    raw.socket.write(get.repeat(3));
    await until(() => held.length === 1);
    const [socket] = sockets;
    raw.socket.write(get);
    await until(() => socket?.bytesRead === 4 * get.length);
    expect(emitted).to.equal(1);
    for (let answered = 0; answered < 4; answered++) {
      await until(() => held.length === answered + 1);
      held[answered]?.end();
    }
    expect(emitted).to.equal(4);
  });

  it('are not parsed without end when each part of a chunked body begins another', async () => {
    const { listener, sockets } = await serve(() => {});
    let emitted = 0;
    listener.server.prependListener('request', () => emitted++);
    const raw = await connectRaw(listener.port);
    const chunked = head('POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked');
    // The reader passes on 1024 bytes of a chunked body at a time: the end of one, requests, and the begin of the next.
    const [end, begin] = ['01234\r\n0\r\n\r\n', `${chunked}a\r\n01234`];
    const requests = Math.floor((1024 - end.length - begin.length) / get.length);
    const part =
      end +
      get.repeat(requests - 1) +
      get.replace('localhost', 'localhost'.padEnd(9 + 1024 - end.length - begin.length - requests * get.length, 'x')) +
      begin;
    expect(part).to.have.length(1024);
    raw.socket.write(begin);
    await until(() => emitted === 1);
    raw.socket.write(part.repeat(100));
    await until(() => sockets.size === 0);
    expect(emitted).to.be.within(100, 200);
  });

  it('are read with their bodies, of a length and in chunks', async () => {
    const { listener } = await startRecording();
    const raw = await connectRaw(listener.port);
    const length = head('POST / HTTP/1.1', 'Host: localhost', 'Content-Length: 8');
    const chunked = head('POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked');
    const large = 'x'.repeat(100_000);
    const wires = [`${length}\r\n\r\nabcd`, `${chunked}4\r\nefgh\r\n0\r\n\r\n`, get];
    raw.socket.write(`${wires.join('').repeat(2)}${chunked}186a0\r\n${large}\r\n0\r\n\r\n${closing}`);
    const { responses } = parseResponses(await raw.ended);
    const bodies = ['\r\n\r\nabcd', 'efgh', ''];
    expect(responses.map(({ body }) => body)).to.deep.equal([...bodies, ...bodies, large, '']);
  });

  it('are read byte by byte, too', async () => {
    const { listener } = await startRecording();
    const raw = await connectRaw(listener.port);
    const wire = `${head('POST / HTTP/1.1', 'Host: localhost', 'Content-Length: 3')}abc${closing}`;
    for (const byte of wire) await new Promise((resolve) => raw.socket.write(byte, resolve));
    const { responses } = parseResponses(await raw.ended);
    expect(responses.map(({ body }) => body)).to.deep.equal(['abc', '']);
  });
});

describe('a client that pipelines behind a slow response', () => {
  it('is no longer read above the high-water mark', async () => {
    const asked = Promise.withResolvers<IncomingMessage>();
    const { listener } = await serve((request) => asked.resolve(request));
    const raw = await connectRaw(listener.port);
    raw.socket.write(get);
    const { socket } = await asked.promise;
    const total = 64 * 1024 * 1024;
    raw.socket.write(Buffer.alloc(total, get));
    await until(() => socket.readableLength >= socket.readableHighWaterMark);
    // A response on another connection proves that the listener had time to read more.
    const other = connect({ port: listener.port, host: '127.0.0.1' });
    const second = new Promise((resolve) => listener.server.once('request', resolve));
    other.write(get);
    await second;
    other.destroy();
    expect(socket.readableLength).to.be.lessThan(4 * socket.readableHighWaterMark);
    expect(socket.bytesRead).to.be.lessThan(total / 2);
  });
});

describe('requests of many connections at the same moment', () => {
  it('are begun in several turns', async () => {
    const turn = countTurns();
    const begun = new Map<number, number>();
    let all = 0;
    const { listener, sockets } = await serve((_request, response) => {
      all++;
      begun.set(turn(), (begun.get(turn()) ?? 0) + 1);
      response.end();
    });
    const CONNECTIONS = 5 * REQUESTS_PER_TURN;
    const raws = await Promise.all(Array.from({ length: CONNECTIONS }, () => connectRaw(listener.port)));
    await until(() => sockets.size === CONNECTIONS);
    for (const { socket } of raws) socket.write(closing);
    await until(() => all === CONNECTIONS);
    // The count of turns advances in the same phase as deferred requests begin, so that two batches may meet in one count.
    expect(Math.max(...begun.values())).to.be.at.most(2 * REQUESTS_PER_TURN);
  });
});

describe('large bodies that arrive at the same moment', () => {
  it('are received in several turns', async () => {
    const turn = countTurns();
    const received = new Map<number, number>();
    let all = 0;
    const { listener, sockets } = await serve((request, response) => {
      request.on('data', ({ length }: Buffer) => {
        all += length;
        received.set(turn(), (received.get(turn()) ?? 0) + length);
      });
      request.once('end', () => response.end());
    });
    const CONNECTIONS = 20;
    const body = Buffer.alloc(BODY_BYTES_PER_TURN);
    const start = head('POST / HTTP/1.1', 'Host: localhost', `Content-Length: ${body.length}`);
    const raws = await Promise.all(Array.from({ length: CONNECTIONS }, () => connectRaw(listener.port)));
    await until(() => sockets.size === CONNECTIONS);
    for (const { socket } of raws) socket.write(Buffer.concat([Buffer.from(start), body]));
    await until(() => all === CONNECTIONS * body.length);
    expect(Math.max(...received.values())).to.be.at.most(3 * BODY_BYTES_PER_TURN);
  });

  it('are received in more turns if they consist of tiny chunks', async () => {
    const turn = countTurns();
    const received = new Map<number, number>();
    let all = 0;
    const { listener, sockets } = await serve((request, response) => {
      request.on('data', () => {
        all += 1;
        received.set(turn(), (received.get(turn()) ?? 0) + 1);
      });
      request.once('end', () => response.end());
    });
    const CONNECTIONS = 20;
    const CHUNKS = 20_000;
    const chunk = '1\r\nx\r\n';
    const start = head('POST / HTTP/1.1', 'Host: localhost', 'Transfer-Encoding: chunked');
    const raws = await Promise.all(Array.from({ length: CONNECTIONS }, () => connectRaw(listener.port)));
    await until(() => sockets.size === CONNECTIONS);
    for (const { socket } of raws) socket.write(start + chunk.repeat(CHUNKS));
    await until(() => all === CONNECTIONS * CHUNKS);
    // A chunk takes a microsecond. Without a higher cost, a turn would receive 175,000 of them.
    expect(Math.max(...received.values())).to.be.at.most(70_000);
  });
});
