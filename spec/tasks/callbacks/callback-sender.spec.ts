import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../../db/attempt-history.ts';
import type { CallbackData, Delivery, FoundTask, StoredMessage } from '../../../db/task-store.ts';
import { CallbackSender } from '../../../main/tasks/callbacks/callback-sender.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { afterTest } from '../../support/cleanup.ts';
import { listenLocally } from '../../support/free-port.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { serve } from '../../support/server.ts';
import { until } from '../../support/until.ts';

const DAY = 86_400_000;
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const ROW = { id: 't', payload: '{}', status: 'completed', result: '{"output":1}', created_at: 1, processed_at: 2 };
const DEAD = {
  ...{ id: 't', action: 'sum', body: '{}', bodyBytes: 2, state: 'failed', priority: 3, runAt: 0, acceptedAt: 1000 },
  ...{ attempts: 1, reason: 'no', history: NO_ATTEMPTS, isPermanent: true, failedAt: 2000, callbackUrl: 'http://a/' },
} as unknown as StoredMessage;

interface Received {
  headers: IncomingMessage['headers'];
  body: string;
}

/** Starts a receiver and a sender of which the receiver is the only allowed host. */
async function open(answer: (response: ServerResponse, request: IncomingMessage) => void, listed?: string) {
  const received: Received[] = [];
  const handle: RequestListener = async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    received.push({ headers: request.headers, body });
    answer(response, request);
  };
  const { listener, url } = await serve(handle);
  const clock = new ManualClock();
  let found: FoundTask | undefined;
  const sender = new CallbackSender({
    hosts: [listed ?? `127.0.0.1:${listener.port}`],
    secrets: [randomBytes(24)],
    find: () => found,
    clock,
    random: { number: () => 0.5 },
  });
  afterTest(() => sender.stop());
  const deliveryOf = (data: Partial<CallbackData> = {}, attempt = 1) => {
    const given: CallbackData = { url: `${url}/hook`, task: 't', action: 'sum', status: 'completed', ...data };
    return {
      id: 'c',
      body: JSON.stringify({ data: given }),
      attempt,
      callbackOf: 't',
      traceparent: TRACEPARENT,
    } as Delivery;
  };
  return {
    ...{ sender, clock, received, url, listener, deliveryOf },
    find(task: FoundTask | undefined) {
      found = task;
    },
    send: (data: Partial<CallbackData> = {}, attempt = 1) =>
      sender.run(deliveryOf(data, attempt), { onStart: () => {} }),
  };
}

const status = (code: number, headers: Record<string, string> = {}, body = '') => {
  return (response: ServerResponse) => void response.writeHead(code, headers).end(body);
};
const retryAfterOf = (outcome: Outcome) => (outcome.ended === 'raised' ? outcome.retryAfterMs : undefined);

describe('the sender of callbacks', () => {
  it('posts what is known of a task that has ended differently since, with its id, time and traceparent', async () => {
    const { send, received, find, clock } = await open(status(200));
    for (const [end, task] of [
      ['completed', { message: DEAD }],
      ['failed', { row: ROW }],
      ['failed', { message: { ...DEAD, state: 'retrying' } }],
    ] as const) {
      find(task);
      await send({ status: end });
      const { headers, body } = received.pop() as Received;
      expect(JSON.parse(body)).to.deep.equal({ id: 't', action: 'sum', status: end });
      const timestamp = `${Math.floor(clock.now() / 1000)}`;
      const webhook = { 'webhook-id': 'c', 'webhook-timestamp': timestamp, traceparent: TRACEPARENT };
      expect(headers).to.include({ ...webhook, 'content-type': 'application/json' });
    }
  });

  it('posts a completed task with its result, and a failed one with its reason, and counts them', async () => {
    const { sender, send, received, find } = await open(status(204));
    find({ row: ROW });
    await send({ status: 'completed' });
    find({ message: DEAD });
    await send({ status: 'failed' });
    const [completed, failed] = received.map(({ body }) => JSON.parse(body));
    expect(completed).to.deep.equal(ROW);
    expect(failed).to.include({ id: 't', status: 'failed', attempts: 1, reason: 'no' });
    expect([...sender.outcomes]).to.deep.include(['delivered', 2]);
  });

  it('keeps the first 200 characters of an answer, and reads 64 KiB of it', async () => {
    const isClosed = Promise.withResolvers<void>();
    const { send } = await open((response, { socket }) => {
      socket.once('close', () => isClosed.resolve());
      response.writeHead(201);
      const write = () => {
        if (!response.destroyed) response.write('ab'.repeat(8192), () => setImmediate(write));
      };
      write();
    });
    expect(await send()).to.deep.equal({
      ended: 'returned',
      output: JSON.stringify({ status: 201, answer: 'ab'.repeat(100) }),
    });
    await isClosed.promise;
  });

  it('tries again after any other answer, and follows no redirect', async () => {
    const { send, received, url, sender } = await open((response) =>
      response.writeHead(302, { Location: url }).end('go\n away '),
    );
    const outcome = await send();
    const reason = 'the receiver answered 302: go away';
    expect(outcome).to.deep.equal({ ended: 'raised', permanent: false, reason, retryAfterMs: 5000 });
    expect(received).to.have.length(1);
    expect([...sender.outcomes]).to.deep.include(['failed', 1]);
  });

  it('tries again with growing delays, which last a day', async () => {
    const { send } = await open(status(500));
    const delays: number[] = [];
    for (let attempt = 1; attempt <= 8; attempt += 1) delays.push(retryAfterOf(await send({}, attempt)) ?? 0);
    expect(delays.map((ms) => ms / 1000)).to.deep.equal([5, 60, 300, 1800, 7200, 14_400, 28_800, 36_000]);
    expect(delays.reduce((sum, ms) => sum + ms)).to.be.greaterThan(DAY);
  });

  it('waits as long as the receiver asks, but no shorter than otherwise and no longer than a day', async () => {
    let header = '';
    const { send, clock } = await open((response) => status(503, { 'Retry-After': header })(response));
    const asked = async (text: string) => {
      header = text;
      return retryAfterOf(await send());
    };
    expect(await asked('120')).to.equal(120_000);
    expect(await asked('0')).to.equal(5000);
    expect(await asked('999999')).to.equal(DAY);
    const inAnHour = new Date(clock.now() + 3_600_000);
    inAnHour.setMilliseconds(0);
    expect(await asked(inAnHour.toUTCString())).to.be.within(3_599_000, 3_600_000);
    for (const text of ['soon', '-5', '1e5', 'Thu, 01 Jan 1970 00:00:00 GMT']) expect(await asked(text)).to.equal(5000);
  });

  it('gives up at 410, or if the host is not allowed any more', async () => {
    const gone = await open(status(410));
    expect(await gone.send()).to.include({ ended: 'raised', permanent: true, reason: 'the receiver answered 410' });
    const { send, received, url } = await open(status(200), 'example.com');
    const reason = `callback_url: the host ${new URL(url).host} is not in CALLBACK_HOSTS`;
    expect(await send()).to.deep.equal({ ended: 'raised', permanent: true, reason });
    expect(received).to.deep.equal([]);
  });

  it('connects to no private address of a name', async () => {
    const { listener, send, received } = await open(status(200), hostname().toLowerCase());
    const outcome = await send({ url: `http://${hostname().toLowerCase()}/` });
    expect(outcome).to.include({ ended: 'raised', permanent: false });
    expect(outcome)
      .to.have.property('reason')
      .that.matches(/ has no public address$|ENOTFOUND|EAI_AGAIN/);
    expect(received).to.deep.equal([]);
    expect(listener.port).to.be.greaterThan(0);
  });

  it('fails if nobody listens, or the answer is no HTTP or switches protocols', async () => {
    let answer = 'nonsense';
    const server = createServer((socket) => void socket.resume().end(`${answer}\r\n\r\n`));
    const host = `127.0.0.1:${await listenLocally(server)}`;
    const { send } = await open(status(200), host);
    expect(await send({ url: `http://${host}/` })).to.include({ ended: 'raised', permanent: false });
    answer = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x';
    const reason = 'the receiver answered 101';
    expect(await send({ url: `http://${host}/` })).to.include({ ended: 'raised', permanent: false, reason });
    server.close();
    await once(server, 'close');
    const outcome = await send({ url: `http://${host}/` });
    expect(outcome)
      .to.have.property('reason')
      .that.matches(/^connect ECONNREFUSED/);
  });

  it('fails if there is no whole answer within 10 s', async () => {
    for (const answer of [() => {}, (response: ServerResponse) => void response.writeHead(200).write('a')]) {
      const { send, clock, received } = await open(answer);
      const sent = send();
      await until(() => received.length === 1);
      clock.advance(9999);
      expect(await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 30, 'open'))])).to.equal('open');
      clock.advance(1);
      expect(await sent).to.include({ ended: 'raised', permanent: false, reason: 'no answer within 10 s' });
    }
  });

  it('ends a request as cancelled, and all requests as released when it stops', async () => {
    const { sender, deliveryOf, received } = await open(() => {});
    const [one, two] = [deliveryOf(), deliveryOf()];
    const outcomes = [one, two].map((delivery) => sender.run(delivery, { onStart: () => {} }));
    await until(() => received.length === 2);
    expect(sender.cancel(one)).to.equal(false);
    expect(await outcomes[0]).to.deep.equal({ ended: 'cancelled' });
    sender.stop();
    expect(await outcomes[1]).to.include({ ended: 'released' });
    expect([...sender.outcomes]).to.deep.include.members([
      ['delivered', 0],
      ['failed', 0],
    ]);
  });
});
