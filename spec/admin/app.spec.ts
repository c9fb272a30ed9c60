import { expect } from 'chai';
import { Registry } from 'prom-client';
import { createAdminApp } from '../../main/admin/app.ts';
import { logCheck } from '../../main/admin/service.ts';
import type { Check } from '../../main/http/readiness.ts';
import { registerMetrics } from '../../main/metrics/metrics-table.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { captureLog } from '../support/log.ts';
import { request } from '../support/program.ts';
import { connectRaw, head } from '../support/raw-connection.ts';
import { serve } from '../support/server.ts';
import { countTurns, until } from '../support/until.ts';

async function start(options: Partial<Parameters<typeof createAdminApp>[0]> = {}) {
  const metrics = new Registry();
  registerMetrics(metrics, { gauge: { size: ['How many.', () => 7] } });
  const app = createAdminApp({
    ...{ checks: {}, warnings: {}, corsOrigins: [], symbols: defaultSymbols, metrics, log: captureLog().log },
    ...{ rules: { actions: new Map(), rejectUnknown: false }, ...options },
  });
  return serve(app.callback());
}

describe('the admin listener', () => {
  it('renders the metrics of each of 20 concurrent requests in a separate turn of the event loop', async () => {
    const turn = countTurns();
    const turns: number[] = [];
    const render = async () => {
      turns.push(turn());
      return 'size 7';
    };
    const { listener, sockets } = await start({ metrics: { contentType: 'text/plain', metrics: render } });
    const clients = await Promise.all(Array.from({ length: 20 }, () => connectRaw(listener.port)));
    await until(() => sockets.size === clients.length);
    for (const { socket } of clients) socket.write(head('GET /metrics HTTP/1.1', 'Host: localhost'));
    await Promise.all(clients.map((client) => client.until(/size 7/)));
    expect(new Set(turns).size).to.equal(20);
  });

  it('serves at / a page with links to all its paths, also to a visitor from another site', async () => {
    const { url } = await start();
    const { status, headers, body } = await request(`${url}/`, { headers: { 'Sec-Fetch-Site': 'cross-site' } });
    expect([status, headers.get('content-type')]).to.deep.equal([200, 'text/html; charset=utf-8']);
    expect(headers.get('content-security-policy')).to.match(/^default-src 'none';/);
    expect(body)
      .to.match(/<\/html>\n$/)
      .and.not.match(/<(script|style)|style=/);
    const links = [...body.matchAll(/^<li><a href="([^"]+)">\1<\/a>: \w.*<\/li>$/gm)].map(([, path]) => path);
    expect(links).to.deep.equal(['/healthz', '/readyz', '/metrics', '/openapi.json', '/asyncapi.json']);
    for (const path of links) expect((await request(`${url}${path}`)).status, path).to.equal(200);
  });

  it('answers /readyz with the state of each check, with 503 if one fails, and /healthz with 200 always', async () => {
    const ok = () => undefined;
    const full = () => 'it is full';
    const gone = () => {
      throw new Error('auth.db does not exist');
    };
    const isOk = { state: 'ok' };
    const isFull = { state: 'failed', detail: 'it is full' };
    const isGone = { state: 'failed', detail: 'auth.db does not exist' };
    for (const [checks, warnings, status, expected] of [
      [{ a: ok, b: ok }, {}, 'ready', { a: isOk, b: isOk }],
      [{ a: ok }, { full, b: ok }, 'ready', { a: isOk, full: { ...isFull, state: 'warning' }, b: isOk }],
      [{ a: ok, full, gone }, {}, 'not ready', { a: isOk, full: isFull, gone: isGone }],
    ] as [Record<string, Check>, Record<string, Check>, string, object][]) {
      const { url } = await start({ checks, warnings });
      const answer = { status: status === 'ready' ? 200 : 503, body: { status, checks: expected } };
      expect(await request(`${url}/readyz`)).to.deep.include(answer);
      expect(await request(`${url}/healthz`)).to.deep.include({ status: 200, body: { status: 'ok' } });
    }
  });

  it('answers other methods with 405 and other paths with 404', async () => {
    const { url } = await start();
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      const answer = await request(`${url}${path}`, { method: 'POST' });
      expect(answer, path).to.deep.include({ status: 405, body: { error: 'method not allowed' } });
      expect(answer.headers.get('allow')).to.equal('GET, HEAD, OPTIONS');
    }
    for (const path of ['/Healthz', '/READYZ', '/healthz/', '/metrics/', '/openapi.JSON'])
      expect(await request(`${url}${path}`), path).to.deep.include({ status: 404, body: { error: 'not found' } });
  });

  it('has a check of the log, which warns for 15 minutes after lines were lost, also before its first call, and while standard output fails', () => {
    let lost = 2;
    let minutes = 0;
    let failure: string | undefined;
    const check = logCheck({ lost: () => lost, failure: () => failure }, () => minutes * 60_000);
    const found: unknown[] = [];
    for (const [at, lines] of Object.entries({ 0: 2, 1: 3, 15: 3, 16: 3, 20: 4, 34: 4, 35: 4 })) {
      minutes = Number(at);
      lost = lines;
      found.push(check());
    }
    const warning = (count: number) => `${count} log lines were lost, because standard output did not take them`;
    expect(found).to.deep.equal([warning(2), warning(3), warning(3), undefined, warning(4), warning(4), undefined]);
    failure = 'ENOSPC: no space left on device, write';
    expect(check()).to.equal(`standard output takes no log lines: ${failure}`);
  });
});
