import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { itemsOf, type ServiceName, serviceNames } from '../support/contract.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { type HttpResponse, post, request, startServices, untilAnswer } from '../support/program.ts';
import { connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';

/** Every path of the contract with each listener that serves it, and the methods that the path supports. */
const paths = serviceNames.flatMap((name) =>
  itemsOf(name).map(([path, item]) => {
    const methods = Object.keys(item).filter((key) => /^(get|head|post|put|delete)$/.test(key));
    return { name, path, methods: methods.map((method) => method.toUpperCase()) };
  }),
);

/** Paths that have no route with the default settings. */
const UNKNOWN = /^(tasks\/.*\/token|(tasks|admin)\/\{path\})$/;
/** Queries that keep a response the same from one request to the next. The history grows by the second. */
const QUERIES: Readonly<Record<string, string>> = { '/queue/history': '?since=99999999999' };
const CHANGING = ['/metrics', '/tasks/events'];

describe('each listener', () => {
  const started = onceForSuite(async () => {
    const services = await startServices({ env: { ALLOWED_HOSTS: 'a.example, B.example' } });
    const { id } = (await post(`${services.tasks}/tasks`, { action: 'sum' })).body;
    return { services, id };
  });
  const urlOf = (name: ServiceName, path: string) =>
    `${started().services[name]}${path.replace('{id}', started().id).replace('{path}', 'nothing')}${QUERIES[path] ?? ''}`;

  for (const { name, path, methods } of paths) {
    it(`answers OPTIONS with the supported methods, and HEAD with the headers of GET: ${name} ${path}`, async () => {
      const url = urlOf(name, path);
      const options = await request(url, { method: 'OPTIONS' });
      const answered = [options.status, options.headers.get('allow'), options.body];
      if (path === '/ws/ticker') expect(answered.slice(0, 2)).to.deep.equal([405, 'GET']);
      else if (UNKNOWN.test(`${name}${path}`)) expect(answered.slice(0, 2)).to.deep.equal([404, null]);
      else expect(answered).to.deep.equal([204, [...methods, 'OPTIONS'].join(', '), '']);
      if (!methods.includes('HEAD')) return;

      const got = await fetch(url, { headers: { Connection: 'close' } });
      const text = CHANGING.includes(path) ? await got.body?.cancel() : await got.text();
      const { status, body, headers } = await request(url, { method: 'HEAD' });
      expect([status, body]).to.deep.equal([got.status, '']);
      const compared = ['content-type', 'content-security-policy', 'cache-control'];
      // A listing is streamed, so its length is not known in advance.
      if (text !== undefined && got.headers.has('content-length')) compared.push('content-length');
      for (const header of compared) expect(headers.get(header), header).to.equal(got.headers.get(header));
      if (got.headers.get('content-type')?.startsWith('application/json')) expect(text).to.match(/^\{.*\}\n$/);
    });
  }

  it('answers requests to loopback names and ALLOWED_HOSTS, and refuses other hosts with 421, upgrades included', async () => {
    const { ticker, tasks, admin } = started().services;
    const answer = async (port: string, first: string, ...rest: string[]) => {
      const raw = await connectRaw(Number(port), first, ...rest, 'Connection: close');
      const { status, body } = parseResponse(await raw.ended);
      return [status, status === 421 ? body : ''];
    };
    const refused = [421, '{"error":"host not allowed"}\n'];
    for (const url of [`${ticker}/`, `${tasks}/tasks`, `${admin}/healthz`]) {
      const { port, host, pathname } = new URL(url);
      const get = (name: string) => answer(port, `GET ${pathname} HTTP/1.1`, `Host: ${name}`);
      for (const name of [host, 'localhost', 'A.Example', 'b.example:443', '[0:0::1]'])
        expect(await get(name), `${name} ${pathname}`).to.deep.equal([200, '']);
      for (const name of ['evil.example', `evil.example:${port}`]) {
        expect(await get(name), `${name} ${pathname}`).to.deep.equal(refused);
        const [first = '', , ...upgrade] = handshake('/ws/ticker');
        expect(await answer(port, first, `Host: ${name}`, ...upgrade)).to.deep.equal(refused);
      }
    }
  });
});

describe('the admin listener of a process', () => {
  it('is ready unless a database is gone or locked, or the services stop, and names the failed check', async () => {
    const services = await startServices();
    const path = (file: string) => join(services.env.DATA_DIR, file);
    const isReady = async () => {
      const { body } = await untilAnswer(`${services.admin}/readyz`, ({ status }) => status === 200);
      expect(body.status).to.equal('ready');
      return body.checks;
    };
    const fails = async (name: string, detail: string) => {
      const isFailed = ({ body }: HttpResponse) => body.checks[name].state === 'failed';
      const { status, body } = await untilAnswer(`${services.admin}/readyz`, isFailed);
      expect([status, body.status, body.checks[name].detail]).to.deep.equal([503, 'not ready', detail]);
    };
    const names = 'shutdown auth_database ticker tasks_database task_threads task_queue token_store';
    const healthy = await isReady();
    expect(Object.keys(healthy)).to.have.members([...names.split(' '), 'queue_paused', 'dead_letters', 'log']);
    for (const check of Object.values(healthy)) expect(check).to.deep.equal({ state: 'ok' });

    for (const [file, name] of Object.entries({ 'auth.db': 'auth_database', 'tasks.db': 'tasks_database' })) {
      await rename(path(file), path('away'));
      await fails(name, `${path(file)} does not exist`);
      expect((await request(`${services.admin}/healthz`)).status).to.equal(200);
      await rename(path('away'), path(file));
      await isReady();
    }

    const database = openBeside(services.env.DATA_DIR);
    const postWhileLocked = () => {
      database.exec('BEGIN EXCLUSIVE');
      return post(`${services.tasks}/tasks`, { action: 'sum' });
    };
    await postWhileLocked();
    await fails('task_queue', 'database is locked');
    database.exec('ROLLBACK');
    await isReady();

    await postWhileLocked();
    services.child.kill('SIGTERM');
    await fails('shutdown', 'shutting down');
    database.exec('ROLLBACK');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  });
});
