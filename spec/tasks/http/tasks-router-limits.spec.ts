import { expect } from 'chai';
import { DatabaseUnavailable } from '../../../db/task-store.ts';
import { discard } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

/** Returns a submission with exactly this number of bytes. */
function submissionOf(bytes: number): string {
  return `{"action":"${'x'.repeat(bytes - '{"action":""}'.length)}"}`;
}

describe('the body limit of POST /tasks', () => {
  const server = onceForSuite(() => startTasksServer({ bodyLimit: 200 }));
  const refused = { status: 413, body: '{"error":"request body too large"}\n' };

  it('counts bytes, and admits a body of exactly the limit', async () => {
    const { submit, queued } = server();
    expect((await submit(submissionOf(200))).status).to.equal(202);
    expect(await queued()).to.have.length(1);
    for (const body of [submissionOf(201), 'x'.repeat(201), JSON.stringify({ action: 'ü'.repeat(100) })]) {
      expect(await submit(body)).to.deep.include({ status: 413, body: { error: 'request body too large' } });
    }
    expect(await queued()).to.deep.equal([]);
  });

  for (const persistence of ['keep-alive', 'close']) {
    it(`is reported to a client that reads only after sending 5 MB (Connection: ${persistence})`, async () => {
      const size = 5 * 1024 * 1024;
      const lines = ['Host: x', `Connection: ${persistence}`, `Content-Length: ${size}`];
      const { socket, until } = await connectRaw(server().port, 'POST /tasks HTTP/1.1', ...lines);
      socket.pause();
      await new Promise((resolve) => socket.write(Buffer.alloc(size, 'x'), resolve));
      socket.resume();
      expect(parseResponse(await until(/\}\n$/))).to.include(refused);
    });
  }

  it('ends a chunked body before it has arrived completely, and leaves a connection usable after a whole body', async () => {
    const start = (line: string) => connectRaw(server().port, 'POST /tasks HTTP/1.1', 'Host: x', line);
    const chunked = await start('Transfer-Encoding: chunked');
    chunked.socket.write(`c9\r\n${'x'.repeat(201)}\r\n`);
    expect(parseResponse(await chunked.until(/\}\n$/))).to.include(refused);
    const { socket, until, ended } = await start('Content-Length: 201');
    socket.write(submissionOf(201));
    await until(/too large"\}\n$/);
    socket.write('POST /tasks HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 14\r\n\r\n{"action":"x"}');
    expect(await ended).to.match(/HTTP\/1\.1 202 Accepted[\s\S]*"status":"queued"\}\n$/);
    expect(await server().queued()).to.have.length(1);
  });
});

describe('a request while the queue cannot take a task', () => {
  const failed = { status: 500, body: { error: 'failed to queue task' } };

  it('answers 500 with Retry-After while it is full of tasks or bytes, logs nothing, and accepts tasks afterwards', async () => {
    const { url, ask, submit, submitTask, take, settle, complete, lines } = await startTasksServer({
      ...{ maxLength: 1, maxBytes: 150 },
    });
    const refusesAll = async (requests: [line: string, body?: string][]) => {
      for (const [line, body = null] of requests) {
        const [method = '', path = ''] = line.split(' ');
        const refused = await request(url + path, { method, body });
        expect(refused, line).to.deep.include(failed);
        expect(refused.headers.get('retry-after'), line).to.equal('1');
      }
    };
    const dead = await submitTask();
    await settle(await take(), discard());
    await ask('PUT /schedules/s', { cron: '0 3 * * *', action: 'x' });
    await refusesAll([['POST /tasks', submissionOf(200)]]);
    const waiting = await submitTask();
    await refusesAll([
      ['POST /tasks', '{"action":"x"}'],
      ['POST /tasks/batch', '{"tasks":[{"action":"x"}]}'],
      [`POST /dead-letters/${dead}/retry`],
      ['POST /schedules/s/run'],
    ]);
    expect(await ask('POST /dead-letters/redrive', { all: true })).to.deep.equal([200, { count: 0, remaining: 1 }]);
    expect((await ask(`DELETE /dead-letters/${waiting}`))[0]).to.equal(404);
    await complete(await take());
    expect((await submit('{"action":"x"}')).status).to.equal(202);
    expect(lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });

  for (const [reason, isShared, makeUnavailable] of [
    ['is closed', false, ({ store }) => store.close()],
    [
      'cannot reach PostgreSQL',
      true,
      ({ queue }) => {
        const unavailable = () => Promise.reject(new DatabaseUnavailable('cannot reach PostgreSQL'));
        Object.assign(queue, { publish: unavailable, redrive: unavailable });
        Object.defineProperty(queue.store, 'isShared', { value: true });
      },
    ],
  ] as [string, boolean, (server: TasksServer) => unknown][])
    it(`answers 500 ${isShared ? 'with' : 'without'} Retry-After while the database ${reason}, and logs why`, async () => {
      const server = await startTasksServer();
      await makeUnavailable(server);
      const { ask, url, lines } = server;
      const refused = await request(`${url}/tasks`, { method: 'POST', body: '{"action":"x"}' });
      expect(refused).to.deep.include(failed);
      expect(refused.headers.get('retry-after')).to.equal(isShared ? '1' : null);
      expect(lines).to.have.length(1);
      expect(lines[0]).to.include({ level: 50, msg: 'failed to queue task', method: 'POST', path: '/tasks' });
      expect(JSON.stringify(lines[0])).to.include(reason);
      if (!isShared) return;
      for (const path of ['/dead-letters/x/retry', '/dead-letters/redrive'])
        expect(await ask(`POST ${path}`, { all: true })).to.deep.equal([failed.status, failed.body]);
    });
});
