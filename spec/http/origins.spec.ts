import { expect } from 'chai';
import { Registry } from 'prom-client';
import { createAdminApp } from '../../main/admin/app.ts';
import { hostCheck } from '../../main/http/origins.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { afterTest } from '../support/cleanup.ts';
import { holdToContract } from '../support/contract-watch.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

const always = ['localhost', 'localhost.', 'app.localhost', '127.0.0.1', '127.8.9.10', '[::1]', '10.0.0.1', '[::2]'];
const foreign = ['evil.example', 'localhost.evil.example', 'notlocalhost', '127.evil.example', '.'];

describe('the hosts that a listener answers to', () => {
  it('are loopback names and all addresses on loopback', () => {
    for (const address of ['127.0.0.1', '127.0.0.2', '::1']) {
      const isAllowed = hostCheck([], address);
      for (const host of always) expect(isAllowed(host), host).to.equal(true);
      for (const host of foreign) expect(isAllowed(host), host).to.equal(false);
    }
  });

  it('are all on another address unless some are set', () => {
    for (const address of ['0.0.0.0', '::', '10.0.0.1']) {
      for (const host of [...always, ...foreign]) expect(hostCheck([], address)(host), host).to.equal(true);
    }
  });

  it('are those that are set, loopback names and all addresses', () => {
    for (const address of ['0.0.0.0', '127.0.0.1']) {
      const isAllowed = hostCheck(['a.example'], address);
      for (const host of [...always, 'a.example']) expect(isAllowed(host), host).to.equal(true);
      for (const host of [...foreign, 'b.a.example']) expect(isAllowed(host), host).to.equal(false);
    }
    expect(hostCheck([], '127.0.1.1', 'Node-1')('node-1'), 'the configured name').to.equal(true);
    expect(hostCheck(['*'], '127.0.0.1')('evil.example')).to.equal(true);
  });

  it('get an answer, others 421 and the end of the connection, upgrades included', async () => {
    const { listener } = await serve((_request, response) => response.end('fine'), { allowedHosts: ['a.example'] });
    listener.server.on('upgrade', (request, socket) => {
      expect(request.headers.host).to.equal('a.example');
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n');
    });
    const answer = async (host: string, first = 'GET / HTTP/1.1', ...rest: string[]) => {
      const raw = await connectRaw(listener.port, first, `Host: ${host}`, ...rest, 'Connection: close');
      const { status, body } = parseResponse(await raw.ended);
      return [status, body];
    };
    const [first, , ...upgrade] = handshake('/');
    for (const host of ['a.example', 'A.Example:80', `127.0.0.1:${listener.port}`, 'localhost', '[0:0::1]']) {
      expect((await answer(host))[0], host).to.equal(200);
    }
    for (const host of ['evil.example', `evil.example:${listener.port}`]) {
      expect(await answer(host), host).to.deep.equal([421, '{"error":"host not allowed"}\n']);
      expect(await answer(host, first, ...upgrade), host).to.deep.equal([421, '{"error":"host not allowed"}\n']);
    }
    expect((await answer('a.example', first, ...upgrade))[0]).to.equal(101);
    const without = await connectRaw(listener.port, 'GET / HTTP/1.0');
    expect(parseResponse(await without.ended).status).to.equal(200);
  });
});

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
  const app = createAdminApp({
    ...{ checks: {}, warnings: {}, metrics: new Registry(), symbols: defaultSymbols, corsOrigins, log },
    rules: { actions: new Map(), rejectUnknown: false },
  });
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
    expect((await queue.counts()).accepted).to.equal(0);
  });

  it('that writes is refused by its origin if the browser does not tell the site', async () => {
    const { url, queue } = await startTasksServer();
    const submit = (Origin: string) =>
      request(`${url}/tasks`, { method: 'POST', headers: { Origin }, body: '{"action":"x"}' });
    for (const origin of [APP, 'null', `http://evil.example:${new URL(url).port}`]) {
      expect(await submit(origin), origin).to.deep.include(refused);
    }
    expect((await queue.counts()).accepted).to.equal(0);
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
    expect((await queue.counts()).accepted).to.equal(1);
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

describe('a request from another port or subdomain of the same site', () => {
  it('is refused if it writes, unless its origin is listed', async () => {
    const { tasksUrl, queue } = await startTasksServer({ corsOrigins: [APP] });
    const submit = (Origin: string) => {
      const headers = { 'Sec-Fetch-Site': 'same-site', Origin };
      return request(tasksUrl, { method: 'POST', headers, body: '{"action":"x"}' });
    };
    expect(await submit('http://localhost:3000')).to.deep.include(refused);
    expect((await submit(APP)).status).to.equal(202);
    expect((await queue.counts()).accepted).to.equal(1);
  });

  it('is answered if it reads', async () => {
    const { url } = await startTasksServer();
    const headers = { 'Sec-Fetch-Site': 'same-site' };
    expect((await request(`${url}/tasks`, { headers })).status).to.equal(200);
    expect((await request(`${await startAdminApp()}/healthz`, { headers })).status).to.equal(200);
  });
});

describe('a request from the same origin, or from no page', () => {
  it('is answered by service B and the admin listener', async () => {
    const { submit } = await startTasksServer();
    const admin = await startAdminApp();
    for (const site of ['same-origin', 'none', '']) {
      const headers = { 'Sec-Fetch-Site': site };
      expect((await submit('{"action":"x"}', { headers })).status, site).to.equal(202);
      expect((await request(`${admin}/healthz`, { headers })).status, site).to.equal(200);
    }
  });
});
