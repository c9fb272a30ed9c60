import { mock } from 'node:test';
import { expect } from 'chai';
import { TICKER } from '../../main/ticker/handler.ts';
import { Processes } from '../../main/ticker/processes.ts';
import { TickerThread, type TickerThreadOptions } from '../../main/ticker/ticker-thread.ts';
import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { Recorder } from '../support/recorder.ts';

const thread = (name: string) => new URL(`../support/ticker-threads/${name}.ts`, import.meta.url);
/** An interval whose next tick is weeks away. */
const NEVER = 2 ** 31 - 1;

interface Entry {
  symbol: string;
  price: number;
  timestamp: number;
}

function pricesOf(message: LifecycleMessage): Map<string, number> {
  if (message.topic !== 'ws.send') throw new Error(message.topic);
  const { data } = JSON.parse(message.data) as { data: Entry[] };
  return new Map(data.map(({ symbol, price }) => [symbol, price]));
}

function create(options: Partial<TickerThreadOptions> = {}) {
  const processes = new Processes();
  const captured = captureLog();
  const ticks: { clients: Pid[]; message: LifecycleMessage }[] = [];
  let ticked = Promise.withResolvers<void>();
  const ticker = new TickerThread({
    intervalMs: 10,
    processes,
    broadcast(clients, message) {
      ticks.push({ clients: [...clients], message });
      ticked.resolve();
      ticked = Promise.withResolvers();
    },
    log: captured.log,
    ...options,
  });
  afterTest(() => ticker.stop());
  processes.register(TICKER, ticker);

  return {
    ...captured,
    ticker,
    processes,
    ticks,
    /** The next tick from now on that goes to exactly these clients. */
    async tickTo(...clients: Pid[]) {
      const from = ticks.length;
      for (;;) {
        const found = ticks.slice(from).find((tick) => tick.clients.join() === clients.join());
        if (found !== undefined) return found;
        await ticked.promise;
      }
    },
    /** Subscribes a new handler with a client of its own. */
    subscribe() {
      const recorder = new Recorder();
      const handler = processes.spawn('handler', new Recorder());
      const client = processes.spawn('client', recorder);
      processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
      const unsubscribe = () => processes.send(TICKER, { topic: 'unsubscribe', handler_pid: handler });
      return { recorder, handler, client, unsubscribe };
    },
    /** Ends a mortal thread. */
    die() {
      const poison = processes.spawn('client', new Recorder());
      processes.register('poison', new Recorder());
      processes.send(TICKER, { topic: 'subscribe', client_pid: poison, handler_pid: 'poison' });
      processes.send(TICKER, { topic: 'unsubscribe', handler_pid: 'poison' });
      processes.exit('poison', 'normal');
    },
  };
}

async function start(options: Partial<TickerThreadOptions> = {}) {
  const started = create(options);
  await started.ticker.start();
  return started;
}

describe('the ticker', () => {
  it('sends a snapshot to the one who subscribes, and to nobody else', async () => {
    const { subscribe, ticks } = await start({ intervalMs: NEVER });
    const first = subscribe();
    const before = Math.floor(Date.now() / 1000);
    const snapshot = await first.recorder.next();
    if (snapshot.topic !== 'ws.send') throw new Error(snapshot.topic);
    expect(Object.keys(snapshot)).to.have.members(['topic', 'type', 'data']);
    expect(snapshot.type).to.equal('text');
    const update = JSON.parse(snapshot.data);
    expect(update).to.have.all.keys('type', 'data');
    expect(update.type).to.equal('ticker');
    const entries = update.data as Entry[];
    const initial = { 'BTC-USD': 42_000, 'ETH-USD': 2_500, 'SOL-USD': 95 };
    expect(Object.fromEntries(entries.map(({ symbol, price }) => [symbol, price]))).to.deep.equal(initial);
    for (const entry of entries) {
      expect(entry).to.have.all.keys('symbol', 'price', 'timestamp');
      expect(entry.timestamp).to.be.within(before, Date.now() / 1000);
    }
    await subscribe().recorder.next();
    expect(first.recorder.received).to.have.lengthOf(1);
    expect(ticks).to.deep.equal([]);
  });

  it('ticks to all subscribers at once, each from its snapshot on', async () => {
    const { subscribe, tickTo } = await start();
    const first = subscribe();
    await tickTo(first.client);
    const second = subscribe();
    const third = subscribe();
    const { message } = await tickTo(first.client, second.client, third.client);
    expect([...pricesOf(message).keys()]).to.have.members(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const { recorder } of [first, second, third]) expect(recorder.received).to.have.lengthOf(1);
  });

  it('sends each tick to a subscriber only after its snapshot', async () => {
    const order: string[] = [];
    const { subscribe, processes, tickTo } = await start({ intervalMs: 1 });
    const handler = processes.spawn('handler', new Recorder());
    const client = processes.spawn('client', { receive: () => order.push('snapshot') });
    const other = subscribe();
    await tickTo(other.client);
    processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
    await tickTo(other.client, client);
    expect(order).to.deep.equal(['snapshot']);
  });

  it('moves the prices on while nobody is subscribed', async () => {
    const { subscribe } = await start({ intervalMs: 1 });
    const prices = async () => {
      const { recorder, unsubscribe } = subscribe();
      const snapshot = pricesOf(await recorder.next());
      unsubscribe();
      return snapshot;
    };
    const first = await prices();
    let later = await prices();
    while ([...first].some(([symbol, price]) => later.get(symbol) === price)) later = await prices();
    expect([...later.keys()]).to.deep.equal([...first.keys()]);
  });

  it('leaves out those who unsubscribe, and those whose handler ends by any cause', async () => {
    const { subscribe, processes, tickTo } = await start();
    const [stays, leaves, ends, fails] = [subscribe(), subscribe(), subscribe(), subscribe()];
    await tickTo(...[stays, leaves, ends, fails].map(({ client }) => client));
    leaves.unsubscribe();
    await tickTo(stays.client, ends.client, fails.client);
    processes.exit(ends.handler, 'normal');
    await tickTo(stays.client, fails.client);
    processes.exit(fails.handler, new Error('x'));
    await tickTo(stays.client);
  });

  it('keeps nobody whose handler is gone when it subscribes', async () => {
    const { subscribe, processes, tickTo, ticks } = await start();
    const gone = processes.spawn('client', new Recorder());
    processes.send(TICKER, { topic: 'subscribe', client_pid: gone, handler_pid: 'handler:gone' });
    const { client } = subscribe();
    await tickTo(client);
    expect(ticks.some(({ clients }) => clients.includes(gone))).to.equal(false);
  });

  it('takes a second subscription of one handler for the first', async () => {
    const { subscribe, processes, tickTo } = await start();
    const { handler, client, recorder, unsubscribe } = subscribe();
    processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
    const other = subscribe();
    await tickTo(client, other.client);
    expect(recorder.received).to.have.lengthOf(1);
    unsubscribe();
    unsubscribe();
    await tickTo(other.client);
  });

  it('takes no notice of other messages', async () => {
    const { processes, subscribe } = await start({ intervalMs: NEVER });
    processes.send(TICKER, { topic: 'ws.leave', reason: '' });
    processes.send(TICKER, { topic: 'ws.send', type: 'text', data: '{}' });
    await subscribe().recorder.next();
    expect(processes.size).to.equal(3);
  });
});

describe('a ticker thread that dies', () => {
  it('is followed by one that has its subscriptions, and sends them no second snapshot', async () => {
    const { subscribe, tickTo, die, logged } = await start({ file: thread('mortal') });
    const [first, second] = [subscribe(), subscribe()];
    await tickTo(first.client, second.client);
    die();
    const line = await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    expect(line).to.include({ level: 50, code: 7, delayMs: 0 });
    await tickTo(first.client, second.client);
    for (const { recorder } of [first, second]) expect(recorder.received).to.have.lengthOf(1);
  });

  it('is followed by one that goes on from its last prices', async () => {
    const { subscribe, die, logged } = await start({ file: thread('mortal'), intervalMs: NEVER });
    expect(pricesOf(await subscribe().recorder.next()).get('BTC-USD')).to.equal(42_000);
    die();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    const prices = pricesOf(await subscribe().recorder.next());
    expect([...prices.values()]).to.deep.equal([50_000, 2_500, 95]);
  });

  it('loses no one who subscribes before the next one runs, and keeps no one who leaves', async () => {
    const { subscribe, tickTo, die, logged, ticks } = await start({ file: thread('mortal') });
    const [stays, leaves] = [subscribe(), subscribe()];
    await tickTo(stays.client, leaves.client);
    die();
    const unseen = subscribe();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    leaves.unsubscribe();
    const late = subscribe();
    ticks.length = 0;
    await tickTo(stays.client, unseen.client, late.client);
    for (const { recorder } of [unseen, late]) expect(recorder.received).to.have.lengthOf(1);
    expect(ticks.some(({ clients }) => clients.includes(leaves.client))).to.equal(false);
  });

  it('again and again is followed ever later', async () => {
    const { ticker, logged, lines } = create({ file: thread('fails') });
    await ticker.start().catch(() => {});
    await logged(({ delayMs }) => delayMs === 500);
    const delays = lines.flatMap(({ delayMs }) => (delayMs === undefined ? [] : [delayMs]));
    expect(delays).to.deep.equal([0, 100, 500]);
    const failure = lines.find(({ msg }) => msg === 'the ticker thread failed');
    expect(failure?.err).to.include({ message: 'this thread never loads' });
    await ticker.stop();
  });

  for (const file of ['fails', 'exits', 'missing']) {
    it(`before it is ready is no start: ${file}`, async () => {
      const { ticker } = create({ file: thread(file) });
      const error = await ticker.start().catch((reason: unknown) => reason);
      expect(error).to.be.instanceOf(Error);
      expect((error as Error).message).to.equal('the ticker thread does not start');
      await ticker.stop();
    });
  }
});

describe('a ticker that is stopped', () => {
  afterEach(() => mock.timers.reset());

  it('leaves no thread, and ticks no more', async () => {
    const { ticker, subscribe, tickTo, ticks, lines } = await start({ intervalMs: 1 });
    await tickTo(subscribe().client);
    await ticker.stop();
    const count = ticks.length;
    subscribe().unsubscribe();
    await ticker.stop();
    expect(ticks).to.have.lengthOf(count);
    expect(lines).to.deep.equal([]);
  });

  it('while it starts does not start', async () => {
    const { ticker } = create();
    const started = ticker.start().catch((error: unknown) => error);
    await ticker.stop();
    expect(await started).to.be.instanceOf(Error);
  });

  it('while its thread is dead does not come back', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { ticker, die, logged } = await start({ file: thread('mortal') });
    die();
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await ticker.stop();
    mock.timers.tick(60_000);
    expect(process.getActiveResourcesInfo()).to.not.include('MessagePort');
  });
});
