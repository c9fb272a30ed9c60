import { mock } from 'node:test';
import { expect } from 'chai';
import { Registry } from 'prom-client';
import { processMetrics } from '../../main/admin/metrics.ts';
import { ByAction, CounterByLabel, registerMetrics } from '../../main/metrics/metrics-table.ts';
import { RequestMetrics, recordRequests } from '../../main/metrics/request-metrics.ts';
import { Histogram } from '../../workers/shared/histogram.ts';
import { numbers } from '../store/stage.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

async function startWithLargeRows(bytes: number) {
  const server = await startTasksServer({ realRows: false });
  const row = { payload: 'x'.repeat(bytes), status: 'completed', result: '{}', created_at: 1, processed_at: 1 };
  server.storeRow({ id: 'a', ...row }, { id: 'b', ...row });
  return server;
}

/** Returns the number of requests by method, route, status and error. */
function seen(metrics: RequestMetrics): Record<string, number> {
  const entries = [...metrics.series()].map(({ method, route, status, error, durations }) => {
    return [`${method} ${route} ${status} ${error}`.trim(), durations.cumulative().count];
  });
  return Object.fromEntries(entries);
}

describe('the metrics', () => {
  it('count requests by method, route, status and error', async () => {
    const { url, tasksUrl, requests } = await startTasksServer();
    for (const [address, method, body] of [
      [tasksUrl, 'POST', '{"action":"sum"}'],
      [tasksUrl, 'POST', '{'],
      [tasksUrl, 'GET'],
      [`${tasksUrl}/one`, 'GET'],
      [`${tasksUrl}/another`, 'GET'],
      [`${url}/queue`, 'PUT'],
      [`${url}/nowhere`, 'GET'],
      [`${url}/nowhere/else`, 'PROPFIND'],
      [url, 'GET'],
    ] as const)
      await request(address, { method, ...(body && { body }) });
    expect(seen(requests)).to.deep.equal({
      'POST /tasks 202': 1,
      'POST /tasks 400 invalid JSON': 1,
      'GET /tasks 200': 1,
      'GET /tasks/:id 404 task not found': 2,
      'PUT /queue 405 method not allowed': 1,
      'GET * 404 not found': 1,
      '_OTHER * 404 not found': 1,
      'GET * 200': 1,
    });
  });

  it('count a handshake with its status, 101 if it is accepted', async () => {
    const { stream, listener, token, requests } = await startTickerBundle();
    await connect(stream, { token: await token() });
    await connect(stream, { token: 'none' }).catch(() => {});
    const malformed = handshake('/ws/ticker', await token()).filter((line) => !line.startsWith('Sec-WebSocket-Key'));
    await (await connectRaw(listener.port, ...malformed)).ended;
    await until(() => Object.keys(seen(requests)).length === 3);
    expect(seen(requests)).to.deep.equal({
      'GET /ws/ticker 101': 1,
      'GET /ws/ticker 401 authentication required': 1,
      'GET /ws/ticker 400 invalid WebSocket handshake': 1,
    });
  });

  it('count a client that disconnects before its response begins with status 499', async () => {
    const { queue, port, sockets, requests } = await startWithLargeRows(600_000);
    const whenGone = async <T>(result: T) => {
      for (const socket of sockets) socket.destroy();
      await until(() => sockets.size === 0);
      return result;
    };
    const [page, found] = [await queue.store.reads.rows.search({}, undefined, 100), await queue.find('a')];
    mock.method(queue.store.reads.rows, 'search', () => whenGone({ ...page, next: undefined }));
    mock.method(queue, 'find', () => whenGone(found));
    for (const path of ['/tasks', '/tasks/a']) await (await connectRaw(port, `GET ${path} HTTP/1.1`, 'Host: x')).ended;
    await until(() => Object.keys(seen(requests)).length === 2);
    expect(seen(requests)).to.deep.equal({ 'GET /tasks 499': 1, 'GET /tasks/:id 499': 1 });
  });

  it('of requests do not include the time that a client takes to read the response', async () => {
    const { port, requests } = await startWithLargeRows(2 ** 24);
    const slow = await connectRaw(port, 'GET /tasks HTTP/1.1', 'Host: x');
    slow.socket.pause();
    await until(() => seen(requests)['GET /tasks 200'] === 1);
    slow.socket.destroy();
  });

  it('of requests have their durations in seconds', async () => {
    const metrics = new RequestMetrics();
    const times = [1000, 1250];
    mock.method(performance, 'now', () => times.shift());
    await recordRequests(metrics)({ method: 'GET', status: 200, state: {} } as never, async () => {});
    expect([...metrics.series()].map(({ durations }) => durations.cumulative().sum)).to.deep.equal([0.25]);
  });

  it('of requests hold at most 500 combinations, and show those that differ in their error as one', async () => {
    const tasks = new RequestMetrics();
    const record = (method: string, route: string, error: string) =>
      tasks.record({ method, route, status: 400, error }, 0.001);
    for (const error of ['x', 'y']) for (const method of ['GET', 'PUT', 'PUT']) record(method, '/a', error);
    for (let each = 0; each < 10_000; each++) record('GET', `/${each}`, '');
    expect([...tasks.series()]).to.have.length(500);
    const registry = new Registry();
    const log = { lost: () => 0, suppressed: () => 0 };
    registerMetrics(registry, processMetrics({ log, requests: { tasks }, loopDelays: {} } as never));
    expect(await registry.metrics()).to.match(/_count\{.*"GET",.*\/a",.*\} 2\n[\s\S]*_count\{.*"PUT",.*\/a",.*\} 4\n/);
  });

  it('add several histograms up to one', async () => {
    const registry = new Registry();
    const [one, other] = [new Histogram([1, 2]), new Histogram([1, 2])];
    registerMetrics(registry, { histogram: { length_seconds: ['Length.', () => [[{ of: 'both' }, [one, other]]]] } });
    for (const seconds of [0.5, 1.5]) one.observe(seconds);
    for (const seconds of [2, 5]) other.observe(seconds);
    expect((await registry.metrics()).split('\n').slice(1, -1)).to.deep.equal([
      '# TYPE length_seconds histogram',
      'length_seconds_bucket{of="both",le="1"} 1',
      'length_seconds_bucket{of="both",le="2"} 3',
      'length_seconds_bucket{of="both",le="+Inf"} 4',
      'length_seconds_sum{of="both"} 9',
      'length_seconds_count{of="both"} 4',
    ]);
  });

  it('start given labels at zero, and count all labels after the first 100 together', () => {
    const tally = new CounterByLabel(['given', '7']);
    for (let name = 0; name < 1000; name++) tally.count(String(name));
    const counts = new Map(tally);
    expect([counts.size, counts.get('given'), counts.get('7'), counts.get('other')]).to.deep.equal([101, 0, 1, 901]);
  });

  it('by action have the first 100 actions, also of a changed module, and one value for all others', () => {
    const values = new ByAction(['other', ...numbers(60)], () => ({}));
    values.add(numbers(60, 50));
    expect([...values].map(([action]) => action)).to.deep.equal([...numbers(100), 'other']);
  });
});
