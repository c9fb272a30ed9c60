import { expect } from 'chai';
import { request } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

describe('createTasksApp', () => {
  it('answers unknown paths with 404, whatever the method', async () => {
    const { url, queue } = await startTasksServer();
    for (const path of [
      '/task',
      '/Tasks',
      '/tasks/',
      '/TASKS/events',
      '/tasks/events/',
      '/tasks/00000000-0000-4000-8000-000000000000/',
      '/Queue',
      '/queue/',
      '/Dead-Letters',
      '/dead-letters/',
      '/dead-letters/00000000-0000-4000-8000-000000000000/Retry',
      '/tasks/1/2',
      '/tasksx',
      '/queue/1',
      '/dead-letters/1/2',
      '//tasks',
      '/tasks%2f',
      // Exists only with TASKS_REQUIRE_TOKEN.
      '/auth/token',
      '/%',
      '/%00',
      '/../tasksx',
    ]) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const { status, body } = await request(url + path, { method });
        expect({ status, body }, `${method} ${path}`).to.deep.equal({ status: 404, body: { error: 'not found' } });
      }
    }
    expect((await queue.counts()).accepted).to.equal(0);
  });

  it('answers other methods of /tasks with 405 and those that are allowed', async () => {
    const { tasksUrl } = await startTasksServer();
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const { status, body, headers } = await request(tasksUrl, { method });
      expect({ status, body }, method).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
      expect(headers.get('allow'), method).to.equal('GET, HEAD, POST, OPTIONS');
    }
  });

  it('answers a method that nobody knows with 405, too', async () => {
    const { port } = await startTasksServer();
    for (const method of ['PROPFIND', 'TRACE', 'QUERY']) {
      const { ended } = await connectRaw(port, `${method} /tasks HTTP/1.1`, 'Host: x', 'Connection: close');
      const { status, headers, body } = parseResponse(await ended);
      expect({ status, body }, method).to.deep.equal({ status: 405, body: '{"error":"method not allowed"}\n' });
      expect(headers, method).to.include('Allow: GET, HEAD, POST, OPTIONS');
    }
  });

  it('needs no authentication, and does not care for one', async () => {
    const { tasksUrl } = await startTasksServer();
    const headers = { Authorization: 'Bearer nonsense' };
    expect((await request(tasksUrl, { headers })).status).to.equal(200);
    expect((await request(tasksUrl, { method: 'POST', headers, body: '{"action":"x"}' })).status).to.equal(202);
  });
});
