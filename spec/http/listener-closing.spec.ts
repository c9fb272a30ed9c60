import { once } from 'node:events';
import { expect } from 'chai';
import { connectRaw } from '../support/raw-connection.ts';
import { fine, serve, serveSlowly } from '../support/server.ts';
import { until } from '../support/until.ts';

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
