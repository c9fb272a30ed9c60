import { expect } from 'chai';
import { DatabaseUnavailable } from '../../../db/database-unavailable.ts';
import { request } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { until } from '../../support/until.ts';
import { startTasksServer } from './tasks-server.ts';

/** Returns a submission with exactly this number of bytes. */
function submissionOf(bytes: number): string {
  return `{"action":"${'x'.repeat(bytes - '{"action":""}'.length)}"}`;
}

describe('the body limit of POST /tasks', () => {
  it('lets a body of just the limit through, and none that is a byte larger', async () => {
    const { submit, queue } = await startTasksServer({ bodyLimit: 200 });
    expect((await submit(submissionOf(200))).status).to.equal(202);
    expect(await submit(submissionOf(201))).to.deep.include({ status: 413, body: { error: 'request body too large' } });
    expect(await submit('x'.repeat(201))).to.deep.include({ status: 413 });
    expect((await queue.counts()).accepted).to.equal(1);
  });

  it('counts bytes, not characters', async () => {
    const { submit } = await startTasksServer({ bodyLimit: 100 });
    expect((await submit(JSON.stringify({ action: 'ü'.repeat(50) }))).status).to.equal(413);
  });

  for (const persistence of ['keep-alive', 'close']) {
    it(`answers 413 to a client that sends 5 MB before it reads anything (Connection: ${persistence})`, async () => {
      const { port, queue } = await startTasksServer();
      const size = 5 * 1024 * 1024;
      const lines = ['Host: x', `Connection: ${persistence}`, `Content-Length: ${size}`];
      const { socket, until } = await connectRaw(port, 'POST /tasks HTTP/1.1', ...lines);
      socket.pause();
      await new Promise<void>((resolve, reject) =>
        socket.write(Buffer.alloc(size, 'x'), (error) => (error ? reject(error) : resolve())),
      );
      socket.resume();
      expect(parseResponse(await until(/\}\n$/))).to.include({
        status: 413,
        body: '{"error":"request body too large"}\n',
      });
      expect((await queue.counts()).accepted).to.equal(0);
    });
  }

  it('answers 413 before a chunked body has arrived completely', async () => {
    const { port } = await startTasksServer({ bodyLimit: 10 });
    const connection = await connectRaw(port, 'POST /tasks HTTP/1.1', 'Host: x', 'Transfer-Encoding: chunked');
    connection.socket.write(`b\r\n${'x'.repeat(11)}\r\n`);
    expect(parseResponse(await connection.until(/\}\n$/))).to.include({
      status: 413,
      body: '{"error":"request body too large"}\n',
    });
  });

  it('serves further requests on a connection whose body was too large', async () => {
    const { port } = await startTasksServer({ bodyLimit: 20 });
    const body = submissionOf(50);
    const connection = await connectRaw(port, 'POST /tasks HTTP/1.1', 'Host: x', `Content-Length: ${body.length}`);
    connection.socket.write(body);
    await connection.until(/too large"\}\n$/);
    connection.socket.write('POST /tasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 14\r\n\r\n');
    connection.socket.write('{"action":"x"}');
    expect(await connection.ended).to.match(/HTTP\/1\.1 202 Accepted[\s\S]*"status":"queued"\}\n$/);
  });

  it('drops the submission of a client that goes away in the middle of it', async () => {
    const { port, queue, submit, lines, sockets } = await startTasksServer();
    const connection = await connectRaw(port, 'POST /tasks HTTP/1.1', 'Host: x', 'Content-Length: 100');
    await until(() => sockets.size === 1);
    connection.socket.write('{"action":"x"');
    connection.socket.destroy();
    await connection.ended;
    await until(() => sockets.size === 0);
    expect((await submit('{"action":"y"}')).status).to.equal(202);
    expect((await queue.counts()).accepted).to.equal(1);
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
});

describe('POST /tasks while the queue cannot take a task', () => {
  const failed = { status: 500, body: { error: 'failed to queue task' } };

  it('answers 500 with Retry-After when it is full, and 202 when it is not any more', async () => {
    const { submit, take, complete, lines } = await startTasksServer({ maxLength: 1 });
    expect((await submit('{"action":"x"}')).status).to.equal(202);
    const refused = await submit('{"action":"x"}');
    expect(refused).to.deep.include(failed);
    expect(refused.headers.get('retry-after')).to.equal('1');
    await complete(await take());
    expect((await submit('{"action":"x"}')).status).to.equal(202);
    expect(
      lines.filter(({ level }) => level >= 40),
      'the log does not grow with load',
    ).to.deep.equal([]);
  });

  it('answers the same when it is full of bytes', async () => {
    const { submit } = await startTasksServer({ maxBytes: 150 });
    const refused = await submit(submissionOf(200));
    expect(refused).to.deep.include(failed);
    expect(refused.headers.get('retry-after')).to.equal('1');
    expect((await submit('{"action":"x"}')).status).to.equal(202);
  });

  it('answers 500 with Retry-After while the database that nodes share is unavailable, and logs why', async () => {
    const { submit, queue, url, lines } = await startTasksServer();
    const unavailable = () => Promise.reject(new DatabaseUnavailable('cannot reach PostgreSQL'));
    Object.defineProperty(queue.store, 'isShared', { value: true });
    Object.defineProperties(queue, {
      publish: { value: unavailable },
      redrive: { value: unavailable },
    });
    for (const refused of [
      await submit('{"action":"x"}'),
      await request(`${url}/dead-letters/x/retry`, { method: 'POST' }),
      await request(`${url}/dead-letters/redrive`, { method: 'POST', body: '{"all":true}' }),
    ]) {
      expect(refused).to.deep.include(failed);
      expect(refused.headers.get('retry-after')).to.equal('1');
    }
    expect(lines).to.have.length(3);
    expect(lines[0]).to.include({ level: 50, msg: 'failed to queue task', method: 'POST', path: '/tasks' });
    expect(JSON.stringify(lines[0])).to.include('cannot reach PostgreSQL');
  });

  it('answers 500 without Retry-After when it is closed, and logs why', async () => {
    const { submit, store, lines } = await startTasksServer();
    await store.close();
    const refused = await submit('{"action":"x"}');
    expect(refused).to.deep.include(failed);
    expect(refused.headers.get('retry-after')).to.equal(null);
    expect(lines).to.have.length(1);
    expect(lines[0]).to.include({ level: 50, msg: 'failed to queue task', method: 'POST', path: '/tasks' });
    expect(JSON.stringify(lines[0])).to.include('is closed');
  });
});
