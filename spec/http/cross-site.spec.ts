import { expect } from 'chai';
import { Registry } from 'prom-client';
import { createAdminApp } from '../../main/admin/app.ts';
import { afterTest } from '../support/cleanup.ts';
import { holdToContract } from '../support/contract-watch.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { serve } from '../support/server.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

const APP = 'https://app.example.com';
const ID = '00000000-0000-4000-8000-000000000000';
const refused = { status: 403, body: { error: 'cross-site request refused' } };

/** Browser headers of a request from a page of another site. */
const crossSite = (origin: string) => ({ 'Sec-Fetch-Site': 'cross-site', Origin: origin });

const writes = [
  ['POST', '/tasks'],
  ['DELETE', `/dead-letters/${ID}`],
  ['POST', `/dead-letters/${ID}/retry`],
  ['PUT', '/tasks'],
  ['POST', '/'],
  ['POST', '/nothing'],
] as const;

async function startAdminApp(corsOrigins: readonly string[] = []): Promise<string> {
  const { log } = captureLog();
  const app = createAdminApp({ checks: {}, metrics: new Registry(), corsOrigins, log });
  const { url, listener } = await serve(app.callback());
  afterTest(holdToContract(listener.port, 'admin').forget);
  return url;
}

describe('a cross-site request', () => {
  it('that writes is refused by service B', async () => {
    const { url, queue } = await startTasksServer();
    for (const [method, path] of writes) {
      const answer = await request(url + path, { method, headers: crossSite(APP), body: '{"action":"x"}' });
      expect(answer, `${method} ${path}`).to.deep.include(refused);
    }
    expect(queue.counts().accepted).to.equal(0);
  });

  it('that writes is refused by its origin if the browser does not tell the site', async () => {
    const { url, queue } = await startTasksServer();
    const submit = (Origin: string) =>
      request(`${url}/tasks`, { method: 'POST', headers: { Origin }, body: '{"action":"x"}' });
    for (const origin of [APP, 'null', `http://evil.example:${new URL(url).port}`]) {
      expect(await submit(origin), origin).to.deep.include(refused);
    }
    expect(queue.counts().accepted).to.equal(0);
    expect((await submit(url)).status).to.equal(202);
  });

  it('that reads is answered by service B, without a header that lets the page see the answer', async () => {
    const { url } = await startTasksServer();
    for (const path of ['/tasks', '/queue', '/']) {
      const { status, headers } = await request(url + path, { headers: crossSite(APP) });
      expect(status, path).to.equal(200);
      expect(headers.has('Access-Control-Allow-Origin'), path).to.equal(false);
    }
  });

  it('of any method is refused by the admin listener', async () => {
    const url = await startAdminApp();
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/nothing']) {
      for (const method of ['GET', 'POST', 'OPTIONS']) {
        const answer = await request(url + path, { method, headers: crossSite(APP) });
        expect(answer, `${method} ${path}`).to.deep.include(refused);
      }
    }
  });

  it('of an origin in CORS_ORIGINS is answered, and the page sees the answer', async () => {
    const { tasksUrl, queue } = await startTasksServer({ corsOrigins: ['https://other.example', APP] });
    const init = { method: 'POST', headers: crossSite(APP), body: '{"action":"x"}' };
    const { status, headers } = await request(tasksUrl, init);
    expect([status, headers.get('Access-Control-Allow-Origin')]).to.deep.equal([202, APP]);
    expect(headers.get('Vary')).to.match(/Origin/);
    const admin = await startAdminApp([APP]);
    const health = await request(`${admin}/healthz`, { headers: crossSite(APP) });
    expect([health.status, health.headers.get('Access-Control-Allow-Origin')]).to.deep.equal([200, APP]);
    for (const origin of ['https://app.example.com.evil.example', 'http://app.example.com', 'null', '']) {
      const other = { ...init, headers: crossSite(origin) };
      expect(await request(tasksUrl, other), origin).to.deep.include(refused);
      expect(await request(`${admin}/healthz`, { headers: crossSite(origin) }), origin).to.deep.include(refused);
    }
    expect(queue.counts().accepted).to.equal(1);
  });

  it('of an origin in CORS_ORIGINS may be preceded by a preflight', async () => {
    const { url } = await startTasksServer({ corsOrigins: [APP] });
    const preflight = (origin: string, path: string) =>
      request(url + path, {
        method: 'OPTIONS',
        headers: { ...crossSite(origin), 'Access-Control-Request-Method': 'DELETE' },
      });
    for (const path of ['/tasks', `/dead-letters/${ID}`]) {
      const { status, headers } = await preflight(APP, path);
      expect([status, headers.get('Access-Control-Allow-Origin')], path).to.deep.equal([204, APP]);
      expect(headers.get('Access-Control-Allow-Methods'), path).to.equal('GET,HEAD,POST,DELETE');
    }
    const other = await preflight('https://other.example', '/tasks');
    expect(other.status).to.equal(405);
    expect(other.headers.has('Access-Control-Allow-Origin')).to.equal(false);
  });

  it('is answered by service A, which allows any origin', async () => {
    const { url, apiKey } = await startTickerBundle();
    const body = JSON.stringify({ api_key: apiKey });
    const { status, headers } = await request(`${url}/auth/token`, { method: 'POST', headers: crossSite(APP), body });
    expect([status, headers.get('Access-Control-Allow-Origin')]).to.deep.equal([200, '*']);
  });
});

describe('a request from the same site, or from no page', () => {
  it('is answered by service B and the admin listener', async () => {
    const { submit } = await startTasksServer();
    const admin = await startAdminApp();
    for (const site of ['same-origin', 'same-site', 'none', '']) {
      const headers = { 'Sec-Fetch-Site': site };
      expect((await submit('{"action":"x"}', { headers })).status, site).to.equal(202);
      expect((await request(`${admin}/healthz`, { headers })).status, site).to.equal(200);
    }
  });
});
