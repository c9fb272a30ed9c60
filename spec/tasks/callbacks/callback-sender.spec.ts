import { randomBytes } from 'node:crypto';
import type { lookup } from 'node:dns';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../../db/attempt-history.ts';
import type { CallbackData, Delivery, FoundTask, StoredMessage } from '../../../db/task-store.ts';
import { CallbackSender } from '../../../main/tasks/callbacks/callback-sender.ts';
import { isPublicAddress, lookupPublic } from '../../../main/tasks/callbacks/public-addresses.ts';
import { afterTest } from '../../support/cleanup.ts';
import { listenLocally } from '../../support/free-port.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { serve } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** Starts a receiver, and a sender whose only allowed host is the receiver unless another one is named. */
async function open(answer: (response: ServerResponse, request: IncomingMessage) => unknown, host?: string) {
  const received: { headers: IncomingHttpHeaders; body: string }[] = [];
  const { listener, url } = await serve(async (request, response) => {
    received.push({ headers: request.headers, body: await text(request) });
    answer(response, request);
  });
  const clock = new ManualClock();
  const known: { task?: FoundTask } = {};
  const parts = { secrets: [randomBytes(24)], find: () => known.task, clock, random: { number: () => 0 } };
  const sender = new CallbackSender({ hosts: [host ?? `127.0.0.1:${listener.port}`], ...parts });
  afterTest(() => sender.stop());
  const deliveryOf = (data: Partial<CallbackData> = {}, attempt = 1) => {
    const given: CallbackData = { url: `${url}/hook`, task: 't', action: 'sum', status: 'completed', ...data };
    return { id: 'c', body: JSON.stringify({ data: given }), attempt, callbackOf: 't', traceparent } as Delivery;
  };
  const run = (delivery: Delivery) => sender.run(delivery, { onStart: () => {} });
  const send = (data: Partial<CallbackData> = {}, attempt = 1) => run(deliveryOf(data, attempt));
  return { sender, clock, received, url, deliveryOf, known, run, send };
}

const status =
  (code: number, headers: Record<string, string> = {}, body = '') =>
  (response: ServerResponse) =>
    response.writeHead(code, headers).end(body);
const failed = (reason: string, permanent = false) => ({ ended: 'raised', permanent, reason });

const row = { id: 't', payload: '"ü"', status: 'completed', result: '{}', created_at: 1, processed_at: 2 };
const failure = { state: 'failed', attempts: 1, reason: 'no', history: NO_ATTEMPTS };
const message = { id: 't', body: '{}', ...failure } as unknown as StoredMessage;

describe('the sender of callbacks', () => {
  it('posts a completed task with its result and a failed one with its reason, each with its id, time and traceparent', async () => {
    const { sender, send, received, known, clock } = await open(status(204));
    known.task = { row };
    await send();
    known.task = { message };
    await send({ status: 'failed' });
    const [completed, failed] = received.map(({ body }) => JSON.parse(body));
    expect(completed).to.deep.equal(row);
    expect(failed).to.include({ id: 't', status: 'failed', attempts: 1, reason: 'no' });
    const webhook = { 'webhook-id': 'c', 'webhook-timestamp': `${Math.floor(clock.now() / 1000)}`, traceparent };
    expect(received[0]?.headers).to.include({ ...webhook, 'content-type': 'application/json', connection: 'close' });
    expect([...sender.outcomes]).to.deep.include(['delivered', 2]);
    const { mock: aborts } = mock.method(AbortController.prototype, 'abort');
    sender.stop();
    expect([aborts.callCount(), clock.timers], 'of requests that have ended').to.deep.equal([0, 0]);
  });

  it('posts only the id, the action and the end of a task that has ended differently since', async () => {
    const { send, received, known } = await open(status(200));
    for (const [end, task] of [
      ['completed', { message }],
      ['failed', { row }],
      ['failed', { message: { ...message, state: 'retrying' } }],
    ] as const) {
      known.task = task;
      await send({ status: end });
      expect(JSON.parse(received.pop()?.body ?? '')).to.deep.equal({ id: 't', action: 'sum', status: end });
    }
  });

  it('keeps the first 200 characters of an answer, and reads 64 KiB of it', async () => {
    const isClosed = Promise.withResolvers<void>();
    const { send } = await open((response, { socket }) => {
      socket.once('close', () => isClosed.resolve());
      response.writeHead(201);
      const write = () => response.destroyed || response.write('ab'.repeat(8192), () => setImmediate(write));
      write();
    });
    const output = JSON.stringify({ status: 201, answer: 'ab'.repeat(100) });
    expect(await send()).to.deep.equal({ ended: 'returned', output });
    await isClosed.promise;
  });

  it('tries again after any other answer, and follows no redirect', async () => {
    const codes = [302, 400, 401, 403, 404, 408, 409, 411, 429, 500];
    const { send, received, sender, clock } = await open((response) =>
      status(codes[received.length - 1] as number, { Location: '/' }, 'go\n away ')(response),
    );
    for (const code of codes)
      expect(await send()).to.deep.equal({ ...failed(`the receiver answered ${code}: go away`), retryAfterMs: 4500 });
    expect([received.length, clock.timers]).to.deep.equal([codes.length, 0]);
    expect([...sender.outcomes]).to.deep.include(['failed', codes.length]);
  });

  it('tries again with growing delays, which last a day, or later if the receiver asks, at most a day', async () => {
    let headers = {};
    const { send, clock } = await open((response) => status(503, headers)(response));
    for (const [index, seconds] of [5, 60, 300, 1800, 7200, 14_400, 28_800, 36_000].entries())
      expect(await send({}, index + 1)).to.include({ retryAfterMs: seconds * 900 });
    const inAnHour = new Date(clock.now() + 3_600_000).toUTCString();
    for (const [retryAfter, seconds] of [
      ...[['120', 120] as const, ['999999', 86_400] as const, [inAnHour, 3600] as const],
      ...['0', 'soon', '-5', '1e5', 'Thu, 01 Jan 1970 00:00:00 GMT'].map((ignored) => [ignored, 4.5] as const),
    ]) {
      headers = { 'Retry-After': retryAfter };
      expect(await send(), retryAfter).to.include({ retryAfterMs: seconds * 1000 });
    }
  });

  it('gives up at 410, or if the host is not allowed any more', async () => {
    const gone = await open(status(410));
    expect(await gone.send()).to.include(failed('the receiver answered 410', true));
    const { send, received, url } = await open(status(200), 'example.com');
    const reason = `callback_url: the host ${new URL(url).host} is not in CALLBACK_HOSTS`;
    expect([await send(), received]).to.deep.equal([failed(reason, true), []]);
  });

  it('connects to no private address of a name', async () => {
    const host = hostname().toLowerCase();
    const { send, received } = await open(status(200), host);
    const outcome = await send({ url: `http://${host}/` });
    expect(outcome).to.include({ ended: 'raised', permanent: false });
    expect(outcome)
      .to.have.property('reason')
      .that.matches(/ has no public address$|ENOTFOUND|EAI_AGAIN/);
    expect(received).to.deep.equal([]);
  });

  it('fails if nobody listens, or the answer is no HTTP or switches protocols', async () => {
    let answer = 'nonsense';
    const server = createServer((socket) => void socket.resume().write(`${answer}\r\n\r\n`));
    const host = `127.0.0.1:${await listenLocally(server)}`;
    const { send } = await open(status(200), host);
    const url = `http://${host}/`;
    expect(await send({ url })).to.include({ ended: 'raised', permanent: false });
    answer = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x';
    expect(await send({ url })).to.include(failed('the receiver answered 101'));
    server.close();
    await once(server, 'close');
    expect(await send({ url })).to.include(failed(`connect ECONNREFUSED ${host}`));
  });

  it('fails if there is no whole answer within 10 s', async () => {
    for (const answer of [() => {}, (response: ServerResponse) => response.writeHead(200).write('a')]) {
      const { send, clock, received } = await open(answer);
      const sent = send();
      await until(() => received.length === 1);
      clock.advance(9999);
      expect(await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 30, 'open'))])).to.equal('open');
      clock.advance(1);
      expect(await sent).to.include(failed('no answer within 10 s'));
    }
  });

  it('ends a request as cancelled, and all requests as released when it stops', async () => {
    const { sender, run, deliveryOf, received } = await open(() => {});
    const [one, two] = [deliveryOf(), deliveryOf()];
    const outcomes = [run(one), run(two)];
    await until(() => received.length === 2);
    expect(sender.cancel(one)).to.equal(false);
    expect(await outcomes[0]).to.deep.equal({ ended: 'cancelled' });
    sender.stop();
    expect(await outcomes[1]).to.include({ ended: 'released' });
    expect(Object.fromEntries(sender.outcomes)).to.deep.equal({ delivered: 0, failed: 0 });
  });
});

const NOT_PUBLIC = [
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.0.1', '169.254.169.254'],
  ...['172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1', '192.168.1.1', '198.18.0.1'],
  ...['198.51.100.1', '203.0.113.1', '224.0.0.1', '239.1.1.1', '240.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:10.0.0.1', '::ffff:8.8.8.8', '64:ff9b::a00:1'],
  ...['64:ff9b:1::1', '100::1', '2001::1', '2001:db8::1', '2002:7f00:1::', '3fff::1', '5f00::1', 'fc00::1'],
  ...['fd12::1', 'fe80::1', 'fec0::1', 'ff02::1', 'fe80::1%eth0', 'no address'],
];
const PUBLIC = ['1.1.1.1', '8.8.8.8', '100.63.255.255', '172.32.0.1', '223.255.255.255', '2a00:1::1'];

/** Resolves a name that has these addresses. Returns the error or what was found. */
function resolve(addresses: string[], all: boolean): Promise<unknown> {
  const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  const resolver = (_: string, __: object, callback: (error: null, found: object[]) => void) => callback(null, found);
  return new Promise((done) =>
    lookupPublic(resolver as unknown as typeof lookup)('name.example', { all }, (error, address) =>
      done(error?.message ?? address),
    ),
  );
}

describe('an address', () => {
  it('is public unless it is private, loopback, link-local, multicast, reserved or contains an IPv4 address', () => {
    for (const address of NOT_PUBLIC) expect(isPublicAddress(address), address).to.equal(false);
    for (const address of PUBLIC) expect(isPublicAddress(address), address).to.equal(true);
  });

  it('of a receiver is found only if it is public', async () => {
    const addresses = ['10.0.0.1', '1.1.1.1', '::1', '2606:4700::1111'];
    const found = Object.entries({ '1.1.1.1': 4, '2606:4700::1111': 6 }).map(([address, family]) => ({
      address,
      family,
    }));
    expect(await resolve(addresses, true)).to.deep.equal(found);
    expect(await resolve(addresses, false)).to.equal('1.1.1.1');
    for (const all of [true, false])
      expect(await resolve(['10.0.0.1', '::ffff:1.1.1.1'], all)).to.equal('name.example has no public address');
  });
});
