import { expect } from 'chai';
import { onceForSuite } from '../../support/cleanup.ts';
import { itemsOf } from '../../support/contract.ts';
import { request } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

const ID = '00000000-0000-4000-8000-000000000000';

describe('service B', () => {
  const server = onceForSuite(() => startTasksServer());

  it('answers 404 to an unknown path, whatever the method', async () => {
    const paths = [
      ...['/task', '/Tasks', '/tasks/', '/TASKS/events', '/tasks/events/', `/tasks/${ID}/`, '/Queue', '/queue/'],
      ...['/Dead-Letters', '/dead-letters/', `/dead-letters/${ID}/Retry`, '/tasks/1/2', '/tasksx', '/queue/1'],
      ...['/dead-letters/1/2', '//tasks', '/tasks%2f', '/%', '/%00', '/../tasksx'],
      // Exist only with TASKS_REQUIRE_TOKEN.
      ...['/auth/token', `/tasks/${ID}/token`, '/limit-keys/x/token'],
    ];
    for (const path of paths) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        const { status, body } = await request(server().url + path, { method });
        expect([status, body], `${method} ${path}`).to.deep.equal([404, { error: 'not found' }]);
      }
    }
  });

  for (const [path, item] of itemsOf('tasks').filter(([path]) => !/^(\/|\/\{path\}|.*\/token)$/.test(path))) {
    const methods = Object.keys(item).filter((key) => /^(get|head|post|put|delete)$/.test(key));
    const allowed = [...methods, 'options'].join(', ').toUpperCase();
    it(`answers 405 to a method of ${path} other than ${allowed}`, async () => {
      const others = ['GET', 'POST', 'DELETE', 'PUT', 'PATCH'].filter((method) => !allowed.includes(method));
      for (const method of others) {
        const { status, body, headers } = await request(server().url + path.replace(/\{\w+\}/, ID), { method });
        expect([status, body, headers.get('allow')], method).to.deep.equal([
          405,
          { error: 'method not allowed' },
          allowed,
        ]);
      }
    });
  }

  it('answers 405 to a method that HTTP does not define', async () => {
    for (const method of ['PROPFIND', 'TRACE', 'QUERY']) {
      const { ended } = await connectRaw(server().port, `${method} /tasks HTTP/1.1`, 'Host: x', 'Connection: close');
      const { status, headers, body } = parseResponse(await ended);
      expect([status, body], method).to.deep.equal([405, '{"error":"method not allowed"}\n']);
      expect(headers, method).to.include('Allow: GET, HEAD, POST, OPTIONS');
    }
  });

  it('needs no authentication by default, and ignores an Authorization header', async () => {
    const headers = { Authorization: 'Bearer nonsense' };
    expect((await request(server().tasksUrl, { headers })).status).to.equal(200);
    expect((await server().submit('{"action":"x"}', { headers })).status).to.equal(202);
  });

  it('shows a task as JSON to programs and scripts, and redirects a browser at no other address', async () => {
    const id = await server().submitTask();
    for (const [client, headers] of Object.entries<Record<string, string>>({
      curl: { Accept: '*/*' },
      'Java’s HttpURLConnection': { Accept: 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2' },
      'fetch in a page': { Accept: '*/*', 'Sec-Fetch-Dest': 'empty', 'Sec-Fetch-Mode': 'cors' },
      'a client without these headers': {},
    })) {
      const { status, body } = await request(`${server().tasksUrl}/${id}`, { headers, redirect: 'manual' });
      expect([status, body.id], client).to.deep.equal([200, id]);
    }
    const init = { method: 'HEAD', headers: { 'Sec-Fetch-Dest': 'document' }, redirect: 'manual' } as const;
    for (const path of ['/tasks', '/queue', '/tasks/events', '/tasks/search', '/tasks/a/b', '/tasks/%', '/tasks/..%2f'])
      expect((await request(server().url + path, init)).status, path).to.not.equal(303);
  });
});
