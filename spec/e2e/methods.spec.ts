import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { itemsOf, type ServiceName, serviceNames } from '../support/contract.ts';
import { post, request, startServices } from '../support/program.ts';

/** Every path of the contract with each listener that serves it, and the methods that the path supports. */
const paths = serviceNames.flatMap((name) =>
  itemsOf(name).map(([path, item]) => {
    const methods = Object.keys(item).filter((key) => /^(get|head|post|delete)$/.test(key));
    return { name, path, methods: methods.map((method) => method.toUpperCase()) };
  }),
);

/** Paths that have no route with the default settings. */
const UNKNOWN = ['tasks /auth/token', 'tasks /{path}', 'admin /{path}'];
/** Paths whose responses differ from one request to the next. */
/** Otherwise, the history grows by the second. */
const QUERIES: Readonly<Record<string, string>> = { '/queue/history': '?since=99999999999' };
const CHANGING = ['/metrics', '/tasks/events'];

describe('a method that every client may use', () => {
  const started = onceForSuite(async () => {
    const services = await startServices();
    const { id } = (await post(`${services.tasks}/tasks`, { action: 'sum' })).body;
    return { services, id };
  });
  const urlOf = (name: ServiceName, path: string) =>
    `${started().services[name]}${path.replace('{id}', started().id).replace('{path}', 'nothing')}${QUERIES[path] ?? ''}`;

  for (const { name, path, methods } of paths) {
    if (methods.includes('HEAD')) {
      it(`HEAD ${path} of ${name} gets the headers of GET`, async () => {
        const url = urlOf(name, path);
        const got = await fetch(url, { headers: { Connection: 'close' } });
        const text = CHANGING.includes(path) ? await got.body?.cancel() : await got.text();
        const { status, body, headers } = await request(url, { method: 'HEAD' });
        expect([status, body]).to.deep.equal([got.status, '']);
        for (const header of ['content-type', 'content-security-policy', 'cache-control']) {
          expect(headers.get(header), header).to.equal(got.headers.get(header));
        }
        // A listing is streamed, so its length is not known in advance.
        if (text !== undefined && got.headers.has('content-length'))
          expect(headers.get('content-length')).to.equal(got.headers.get('content-length'));
        if (got.headers.get('content-type')?.startsWith('application/json')) expect(text).to.match(/^\{.*\}\n$/);
      });
    }

    it(`OPTIONS ${path} of ${name} lists the methods`, async () => {
      const { status, body, headers } = await request(urlOf(name, path), { method: 'OPTIONS' });
      const allow = headers.get('allow');
      if (path === '/ws/ticker') expect([status, allow]).to.deep.equal([405, 'GET']);
      else if (UNKNOWN.includes(`${name} ${path}`)) expect([status, allow]).to.deep.equal([404, null]);
      else expect([status, allow, body]).to.deep.equal([204, [...methods, 'OPTIONS'].join(', '), '']);
    });
  }
});
