import { expect } from 'chai';
import { tokenAccess } from '../../../main/process/start-services.ts';
import { request } from '../../support/program.ts';
import { startTickerBundle } from '../../support/ticker-bundle.ts';
import { startTasksServer } from './tasks-server.ts';

/** Headers with which Chromium, Firefox and Safari open an address from the address bar or a link. */
const navigation = {
  Accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
  'Sec-Fetch-Dest': 'document',
  'Sec-Fetch-Mode': 'navigate',
};

describe('A browser that opens the URL of a task', () => {
  it('is redirected to the task on the board', async () => {
    const { url, submit } = await startTasksServer();
    const { headers, body } = await submit('{"action":"sum"}');
    const answer = await request(url + headers.get('location'), { headers: navigation, redirect: 'manual' });
    expect(answer.status).to.equal(303);
    expect(answer.headers.get('location')).to.equal(`/?task=${body.id}`);
    expect(answer.headers.get('cache-control')).to.equal('no-store');
  });

  it('is redirected although it has no token, because the board asks for the key', async () => {
    const { tokens } = await startTickerBundle();
    const { url } = await startTasksServer({ access: tokenAccess({ tokens, tokenRoutes: (_ctx, next) => next() }) });
    expect((await request(`${url}/tasks/a`, { headers: navigation, redirect: 'manual' })).status).to.equal(303);
    expect((await request(`${url}/tasks/a`)).status).to.equal(401);
  });

  it('gets every other address of the API as it is', async () => {
    const { url } = await startTasksServer();
    for (const path of ['/tasks', '/queue', '/tasks/a/b', '/tasks/%', '/tasks/..%2f']) {
      expect((await request(url + path, { headers: navigation, redirect: 'manual' })).status, path).to.not.equal(303);
    }
    const ended = new AbortController();
    const { signal } = ended;
    const events = await fetch(`${url}/tasks/events`, { headers: navigation, redirect: 'manual', signal });
    expect(events.status).to.equal(200);
    ended.abort();
  });
});

describe('Any other client that requests the URL of a task', () => {
  it('gets JSON', async () => {
    const { url, submit } = await startTasksServer();
    const { headers, body } = await submit('{"action":"sum"}');
    const clients: Record<string, Record<string, string>> = {
      curl: { Accept: '*/*' },
      'Java’s HttpURLConnection': { Accept: 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2' },
      'fetch in a page': { Accept: '*/*', 'Sec-Fetch-Dest': 'empty', 'Sec-Fetch-Mode': 'cors' },
      'none of the headers': {},
    };
    for (const [name, sent] of Object.entries(clients)) {
      const answer = await request(url + headers.get('location'), { headers: sent, redirect: 'manual' });
      expect(answer.status, name).to.equal(200);
      expect(answer.body.id, name).to.equal(body.id);
    }
  });

  it('is not redirected when it cancels the task', async () => {
    const { url, submit } = await startTasksServer();
    const { headers } = await submit('{"action":"sum"}');
    const answer = await request(url + headers.get('location'), { method: 'DELETE', headers: navigation });
    expect(answer.status).to.equal(204);
  });
});
