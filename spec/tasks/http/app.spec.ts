import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { discard } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { itemsOf } from '../../support/contract.ts';
import { request } from '../../support/program.ts';
import { connectRaw, parseResponse } from '../../support/raw-connection.ts';
import { startTasksServer } from './tasks-server.ts';

/** A request with its answer, and the bodies, or the queries of a GET, to which it is given. Status 400 unless named. */
type Refusal = [request: string, answer: string | object | [status: number, error: string], ...given: unknown[]];

const bytes = (text: string, encoding: BufferEncoding) => new Uint8Array(Buffer.from(text, encoding));
const nested = (depth: number) => `{"action":"x","data":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`;
const ids = (count: number) => Array.from({ length: count }, () => randomUUID());
const sums = (...fields: object[]) => fields.map((each) => ({ action: 'sum', ...each }));
const json = ['', ' ', '{', '{"action":"sum"', 'action=sum', '{"action":"sum"}}', "{'action':'sum'}", 'NaN'];
const YEAR = 366 * 24 * 60 * 60;
const LARGE = `{"action":"${'x'.repeat(70_000)}"}`;

const callback = (detail: string) => ({ error: 'invalid callback_url', path: '/callback_url', detail });
const option = (name: string, detail: string) => ({ error: 'unknown option', path: `/${name}`, detail });
const EVIL = { callback_url: 'http://evil.example/' };
const NOT_LISTED = callback('the host evil.example is not in CALLBACK_HOSTS');
const DELAY = 'delay must be seconds from 0 to 31622400';
const PRIORITY = 'priority must be a whole number from 1 to 5';
const LIMIT_KEY = 'limit_key must be a text of 1 to 255 characters';

/** Submissions of `sum` with each of these values of an option. */
const each = (option: string, ...values: unknown[]) => sums(...values.map((value) => ({ [option]: value })));
const inBatch = (index: number, error: object) => ({ error: 'invalid batch', errors: [{ index, ...error }] });
const ofTask = (...refusals: [Refusal[1], ...unknown[]][]) => refusals.map((each): Refusal => ['POST /tasks', ...each]);
const ofBatch = (answer: Refusal[1], ...tasks: unknown[]): Refusal => [
  'POST /tasks/batch',
  answer,
  ...tasks.map((each) => ({ tasks: each })),
];

const RUN_AT = 'run_at must be an ISO 8601 time with an offset or Unix seconds, from a minute ago to 366 days ahead';
const submissions: Refusal[] = [
  ...ofTask(
    ['invalid JSON', ...json, '{"action":"sum",}', '{"action":"a\nb"}', '\ufeff{"action":"sum"}', '{"action":01}'],
    ['invalid JSON', bytes('{"action":"\xff"}', 'latin1'), bytes('{"action":"\xed\xa0\x80"}', 'latin1')],
    ['invalid JSON', bytes('{"action":"x"}', 'utf16le'), '['.repeat(10_000)],
    ['action required', null, [], '"x"', 1, {}, [{ action: 'x' }], { Action: 'x' }, { data: [] }],
    ['action required', '{"__proto__":{"action":"x"}}', '{"action":"first","action":null}'],
    ['action required', ...each('action', null, 1, true, [], ['sum'], {})],
    ['data must be an object', ...each('data', null, [], 'x', 0)],
    ['data is nested too deeply', nested(511), nested(8000)],
    [DELAY, '{"action":"sum","delay":1e999}', ...each('delay', -0.001, YEAR + 0.001, '60', null, true, [60], {})],
    [RUN_AT, ...each('run_at', 'tomorrow')],
    ['give delay or run_at, not both', ...sums({ delay: 1, run_at: 1 })],
    [PRIORITY, '{"action":"sum","priority":1e999}', ...each('priority', 0, 6, 1.5, -1, '1', null, true, [1], {})],
    [LIMIT_KEY, ...each('limit_key', '', 'x'.repeat(256), 5, null, ['a'], '\ud800')],
    [option('delay_seconds', 'looks like delay'), ...each('delay_seconds', 5)],
    [option('idempotency_key', 'looks like the header Idempotency-Key'), ...each('idempotency_key', 'x')],
    [callback('must be a text'), ...each('callback_url', 1, null)],
    [NOT_LISTED, ...sums(EVIL)],
  ),
  ofBatch('tasks must be an array of 1 to 1000 submissions', undefined, null, {}, 'x', [], Array(1001).fill({})),
  ofBatch(inBatch(1, option('delay_seconds', 'looks like delay')), sums({ note: 'x' }, { delay_seconds: 5 })),
  ofBatch(inBatch(0, option('idempotencyKey', 'looks like idempotency_key')), sums({ idempotencyKey: 'x' })),
  ofBatch(inBatch(1, NOT_LISTED), sums({}, EVIL)),
  ['POST /tasks/batch', option('priority', 'belongs in each task, as priority'), { tasks: sums({}), priority: 1 }],
];

const noFilter = 'ids, all or a filter required';
const noSelection = [
  ...[{}, [], null, '"x"', { ids: [] }, { ids: 'a' }, { ids: [1] }, { ids: ['a', null] }, { ids: ids(1001) }],
  ...[{ ids: ['a'], all: true }, { all: false }, { all: 1 }, { all: true, action: 'a' }, { action: 5 }],
];
const selections: Refusal[] = ['/dead-letters/redrive', '/dead-letters/purge', '/tasks/cancel'].flatMap((path) => [
  [`POST ${path}`, noFilter, ...noSelection],
  [`POST ${path}`, 'action must have at most 256 characters, escaped as JSON', { action: '😀'.repeat(129) }],
  [`POST ${path}`, 'invalid JSON', '{'],
  [`POST ${path}`, [413, 'request body too large'], LARGE],
]);
for (const path of ['/dead-letters/redrive', '/dead-letters/purge'])
  selections.push([`POST ${path}`, noFilter, { reason: 1 }, { all: true, reason: 'no' }, { since: '1' }]);
selections.push(
  ['POST /tasks/cancel', noFilter, { state: 'completed' }, { cause: 'x' }, { limit_key: null }, { limitKey: 'x' }],
  ['POST /tasks/cancel', { parameter: 'state', detail: 'is unknown' }, { state: 'toString' }],
  [
    'POST /dead-letters/redrive',
    { error: 'invalid query', parameter: 'per_second', detail: 'must be a number from 0.01 to 10000' },
    ...[0, 0.009, 10_001, '5', null].map((per_second) => ({ all: true, per_second })),
  ],
);

const invalid = (parameter: string, detail: string) => ({ error: 'invalid query', parameter, detail });
const once = (parameter: string) => invalid(parameter, 'must be given once');
const unknown = (parameter: string, meant: string) => invalid(parameter, `is unknown: did you mean ${meant}?`);
const longAction = 'action must have at most 256 characters, escaped as JSON';
const cursor = (text: string) => `cursor=${Buffer.from(text).toString('base64url')}`;
const queries: Refusal[] = [
  ['GET /tasks', unknown('limit', 'status, action, before, summary'), 'limit=2'],
  ['GET /tasks', unknown('stauts', 'status'), 'stauts=x'],
  ['GET /tasks', unknown('__proto__', 'status, action, before, summary'), '__proto__=x'],
  ['GET /tasks', once('status'), 'status=a&status=b'],
  ['GET /tasks', invalid('summary', 'must be 0 or 1'), 'summary=true', 'summary='],
  ['GET /tasks', 'before is unknown', 'before=', 'before=x', `before=${randomUUID()}`],
  ['GET /tasks', longAction, `action=${'x'.repeat(257)}`, `action=${'%22'.repeat(129)}`],
  ['GET /dead-letters', unknown('status', 'before, summary, action, reason, cause'), 'status=failed'],
  ['GET /dead-letters', once('reason'), 'reason=a&reason=b'],
  ['GET /dead-letters', 'before is unknown', 'before=', 'before=x'],
  ['GET /queue/tasks', unknown('limit', 'state'), 'state=queued&limit=1'],
  [
    'GET /queue/tasks',
    'state must be queued, limited, scheduled, running or retrying',
    ...['', 'state=', 'state=failed', 'state=Queued', 'state=constructor'],
  ],
  ['GET /queue/history', once('since'), 'since=1&since=2'],
  ['GET /queue/history', invalid('step', 'must be 1 or 60'), 'step=2'],
  [
    'GET /queue/history',
    'since must be Unix seconds',
    ...['since=', 'since=x', 'since=-1', 'since=1.5', `since=${'9'.repeat(13)}`],
  ],
  ...Object.entries({ state: 'waiting', text: '', id: 'xyz', since: 'now', until: '-1', limit: '101', total: '1' }).map(
    ([parameter, value]): Refusal => ['GET /tasks/search', { parameter }, `${parameter}=${value}`],
  ),
  ['GET /tasks/search', { parameter: 'text' }, `text=${'x'.repeat(257)}`],
  ['GET /tasks/search', invalid('cause', 'must be given without another state than failed'), 'cause=x&state=queued'],
  ['GET /tasks/search', { parameter: 'cursor' }, 'cursor=x', cursor('[[1,2],null]'), cursor('[["x"],[]]')],
];

const limits = (path: string, detail: string, ...given: object[]): Refusal => {
  return ['PUT /limits/sum', { error: 'invalid limits', path, detail }, ...given];
};
const count = (bound: number) => `must be a whole number from 1 to ${bound}`;
const rate = (fields: object) => ({ rate: { count: 1, seconds: 1, ...fields } });
const noAction = 'the action of limits must have 1 to 200 characters, percent-encoded as UTF-8';
const limited: Refusal[] = [
  limits('', 'needs concurrency, rate or per_key', {}),
  limits('/concurrency', count(100_000), ...[0, 1.5, 100_001].map((concurrency) => ({ concurrency }))),
  limits('/concurency', 'is unknown', { concurency: 1 }),
  limits('/rate', 'must be an object', { rate: 5 }),
  limits('/rate/count', count(10_000), rate({ count: 10_001 })),
  limits('/rate/seconds', 'must be seconds from 0.001 to 86400', rate({ seconds: 0.0009 }), rate({ seconds: 86_401 })),
  limits('/rate/minutes', 'is unknown', rate({ minutes: 1 })),
  limits('/per_key', 'needs concurrency or rate', { per_key: {} }),
  limits('/per_key', 'must be an object', { concurrency: 1, per_key: [] }),
  ['PUT /limits/sum', [413, 'request body too large'], { concurrency: 1, note: 'x'.repeat(4096) }],
  ...['x'.repeat(201), '%zz', '%ED%A0%80'].flatMap((action): Refusal[] => [
    [`PUT /limits/${action}`, noAction, { concurrency: 1 }],
    [`DELETE /limits/${action}`, noAction, undefined],
  ]),
];

const nightly = { cron: '0 3 * * *', action: 'sum' };
const schedule = (answer: Refusal[1], ...given: object[]): Refusal => {
  return ['PUT /schedules/s', answer, ...given.map((fields) => ({ ...nightly, ...fields }))];
};
const wrong = (field: string, detail: string) => ({ error: 'invalid schedule', field, detail });
const zones = ['Mars/Base', '+02:00', null];
const cron = (text?: unknown) => ({ cron: text });
const form = 'must have five fields, or six with seconds, in at most 256 characters';
const malformed = [
  ...['', '* * * * * * *', '* 24 * * *', 'a * * * *', '*/0 * * * *', '5-1 * * * *', '1,,2 * * * *'],
  ...['-1 * * * *', '5/5 * * * *', '*/0 2 * * *', '0 0 0 * *'],
];
const schedules: Refusal[] = [
  schedule(wrong('cron', form), cron(), cron(5), cron('@daily'), cron('* * * *')),
  schedule(wrong('cron', form), cron(`${'0,'.repeat(124)}0 * * * *`)),
  schedule({ error: 'invalid schedule', field: 'cron' }, ...malformed.map(cron)),
  schedule(wrong('cron', 'has a wrong minute: 60'), cron('60 * * * *')),
  schedule(wrong('cron', 'has a wrong day of week: 9'), cron('5 * * * * 9')),
  schedule(wrong('cron', 'has no time'), cron('0 0 31 2 *')),
  schedule(wrong('time_zone', 'must be an IANA time zone'), ...zones.map((time_zone) => ({ time_zone }))),
  schedule(wrong('catch_up', 'must be none or one or all'), { catch_up: 'two' }, { catch_up: null }),
  schedule(wrong('overlap', 'must be allow or skip'), { overlap: true }),
  schedule(wrong('paused', 'must be true or false'), { paused: 'no' }),
  schedule(wrong('timezone', 'is unknown'), { timezone: 'UTC' }),
  schedule(wrong('delay', 'is unknown'), { delay: 5 }),
  schedule('action required', { action: undefined }),
  schedule(NOT_LISTED, EVIL),
  schedule('data must be an object', { data: [] }),
  schedule(PRIORITY, { priority: 6 }),
  schedule([413, 'request body too large'], { data: { text: 'x'.repeat(20_000) } }),
  ['PUT /schedules/s', 'invalid JSON', '{'],
  ...['a%20b', 'é', '%00', '...', 'x'.repeat(101)].map((name): Refusal => {
    return [`PUT /schedules/${name}`, { error: 'invalid schedule', field: 'name' }, nightly];
  }),
];

const names = ['x', '%00', 'a%20b', '__proto__', 'a'.repeat(500), randomUUID(), `'%20OR%201=1`];
const missing = Object.entries({
  'GET /tasks/%': 'task not found',
  'DELETE /tasks/%': 'task not found',
  'POST /tasks/%/run': 'task not found',
  'DELETE /dead-letters/%': 'dead letter not found',
  'POST /dead-letters/%/retry': 'dead letter not found',
  'GET /schedules/%': 'schedule not found',
  'DELETE /schedules/%': 'schedule not found',
  'POST /schedules/%/run': 'schedule not found',
}).flatMap(([line, error]) => names.map((name): Refusal => [line.replace('%', name), [404, error], undefined]));
missing.push(['DELETE /limits/sum', [404, 'limit not found'], undefined]);

describe('service B refuses with 400, or the named status, changes nothing and logs nothing:', () => {
  const started = onceForSuite(async () => {
    const server = await startTasksServer({ bodyLimit: 50_000 });
    await server.submitTask();
    await server.settle(await server.take(), discard());
    await server.submitTask();
    return server;
  });

  for (const [what, refusals] of Object.entries({
    'a submission that is malformed, incomplete or has a wrong option': submissions,
    'a selection that is not up to 1000 ids, a filter or all': selections,
    'a query with a parameter that is unknown, repeated or wrong': queries,
    'limits that are wrong, and names the field': limited,
    'a schedule that is wrong, and names the field': schedules,
    'an unknown task, dead letter, schedule or limit': missing,
  })) {
    it(what, async () => {
      const { url, queue, lines } = started();
      for (const [line, answer, ...given] of refusals) {
        const [method = '', path = ''] = line.split(' ');
        const [status, error] = Array.isArray(answer) ? answer : [400, answer];
        for (const each of given) {
          const isRaw = typeof each === 'string' || each instanceof Uint8Array;
          const sent = isRaw || each === undefined ? (each as BodyInit | undefined) : JSON.stringify(each);
          const isQuery = method === 'GET' && each !== undefined;
          const [address, body] = isQuery ? [`${url}${path}?${each}`, null] : [url + path, sent ?? null];
          const answered = await request(address, { method, body });
          const about = `${line} ${JSON.stringify(each)?.slice(0, 100)}`;
          expect(answered.status, about).to.equal(status);
          expect(answered.body, about).to.deep.include(typeof error === 'string' ? { error } : error);
        }
      }
      expect(await queue.counts()).to.include({ accepted: 2, dead: 1, waiting: 1, cancelled: 0 });
      for (const list of ['limits', 'schedules'])
        expect((await request(`${url}/${list}`)).body[list]).to.deep.equal([]);
      expect(lines).to.deep.equal([]);
    });
  }

  it('a key of idempotency that has not 1 to 255 visible characters, or belongs to a batch', async () => {
    const { submit, ask, queue } = started();
    const error = 'Idempotency-Key must have 1 to 255 visible characters';
    for (const key of ['', ' ', 'two words', 'k'.repeat(256), 'ü']) {
      const answered = await submit('{"action":"sum"}', { headers: { 'Idempotency-Key': key } });
      expect(answered, key).to.deep.include({ status: 400, body: { error } });
    }
    const batch = await ask('POST /tasks/batch', { tasks: [{ action: 'sum' }] }, { 'Idempotency-Key': 'x' });
    expect(batch).to.deep.equal([400, { error: 'give each task of a batch its idempotency_key, not the batch' }]);
    expect((await queue.counts()).accepted).to.equal(2);
  });
});

describe('service B', () => {
  const ID = '00000000-0000-4000-8000-000000000000';
  const server = onceForSuite(() => startTasksServer());

  it('answers 404 to an unknown path, whatever the method', async () => {
    for (const path of [
      ...['/task', '/Tasks', '/tasks/', '/TASKS/events', '/tasks/events/', `/tasks/${ID}/`, '/Queue', '/queue/'],
      ...['/Dead-Letters', '/dead-letters/', `/dead-letters/${ID}/Retry`, '/tasks/1/2', '/tasksx', '/queue/1'],
      ...['/dead-letters/1/2', '//tasks', '/tasks%2f', '/%', '/%00', '/../tasksx'],
      // Exist only with TASKS_REQUIRE_TOKEN.
      ...['/auth/token', `/tasks/${ID}/token`, '/limit-keys/x/token'],
    ])
      for (const method of ['GET', 'POST', 'DELETE']) {
        const { status, body } = await request(server().url + path, { method });
        expect([status, body], `${method} ${path}`).to.deep.equal([404, { error: 'not found' }]);
      }
  });

  for (const [path, item] of itemsOf('tasks').filter(([path]) => !/^(\/|\/\{path\}|.*\/token)$/.test(path))) {
    const methods = Object.keys(item).filter((key) => /^(get|head|post|put|delete)$/.test(key));
    const allowed = [...methods, 'options'].join(', ').toUpperCase();
    it(`answers 405 to a method of ${path} other than ${allowed}`, async () => {
      for (const method of ['GET', 'POST', 'DELETE', 'PUT', 'PATCH'].filter((each) => !allowed.includes(each))) {
        const { status, body, headers } = await request(server().url + path.replace(/\{\w+\}/, ID), { method });
        expect([status, body], method).to.deep.equal([405, { error: 'method not allowed' }]);
        expect(headers.get('allow'), method).to.equal(allowed);
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

  it('shows a task as JSON to programs and scripts, and redirects neither a write of a browser nor another address', async () => {
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
    const names = ['events', 'batch', 'cancel', 'search', 'a/b', '%', '..%2f'];
    for (const path of ['/tasks', '/queue', ...names.map((name) => `/tasks/${name}`)])
      expect((await request(server().url + path, init)).status, path).to.not.equal(303);
    expect((await request(`${server().tasksUrl}/${id}`, { ...init, method: 'DELETE' })).status).to.equal(204);
  });
});
