import { mock } from 'node:test';
import { expect } from 'chai';
import { RequestMetrics } from '../../main/metrics/request-metrics.ts';
import { afterTest } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

/** Returns the number of requests by method, route, status and error. */
function seen(metrics: RequestMetrics): Record<string, number> {
  const entries = [...metrics.series()].map(({ method, route, status, error, durations }) => {
    return [`${method} ${route} ${status} ${error}`.trim(), durations.cumulative().count];
  });
  return Object.fromEntries(entries);
}

describe('the metrics of requests', () => {
  it('tell them apart by method, route, status and error', async () => {
    const { url, tasksUrl, requests } = await startTasksServer();
    await request(tasksUrl, { method: 'POST', body: '{"action":"sum"}' });
    await request(tasksUrl, { method: 'POST', body: '{' });
    await request(tasksUrl);
    await request(`${tasksUrl}/one`);
    await request(`${tasksUrl}/another`);
    await request(`${url}/queue`, { method: 'PUT' });
    await request(`${url}/nowhere`);
    await request(`${url}/nowhere/else`, { method: 'PROPFIND' });
    await request(url);
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

  it('have a handshake as 101, and one that is refused as what it was answered', async () => {
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

  it('have a client that leaves before its response begins as 499', async () => {
    const { queue, storeRow, port, sockets, requests } = await startTasksServer({ realRows: false });
    const large = 'x'.repeat(600_000);
    for (const id of ['a', 'b']) {
      storeRow({ id, payload: large, status: 'completed', result: '{}', created_at: 1, processed_at: 1 });
    }
    const whenGone = async <T>(result: T) => {
      for (const socket of sockets) socket.destroy();
      await until(() => sockets.size === 0);
      return result;
    };
    const [located, found] = [await queue.store.rows.list({}, 'size'), await queue.find('a')];
    mock.method(queue.store.rows, 'list', () => whenGone(located));
    mock.method(queue, 'find', () => whenGone(found));
    afterTest(() => mock.restoreAll());
    for (const path of ['/tasks', '/tasks/a']) {
      await (await connectRaw(port, `GET ${path} HTTP/1.1`, 'Host: x')).ended;
    }
    await until(() => Object.keys(seen(requests)).length === 2);
    expect(seen(requests)).to.deep.equal({ 'GET /tasks 499': 1, 'GET /tasks/:id 499': 1 });
  });

  it('do not count the time that a slow reader takes', async () => {
    const { storeRow, port, requests } = await startTasksServer({ realRows: false });
    const large = 'x'.repeat(2 ** 24);
    for (const id of ['a', 'b']) {
      storeRow({ id, payload: large, status: 'completed', result: '{}', created_at: 1, processed_at: 1 });
    }
    const slow = await connectRaw(port, 'GET /tasks HTTP/1.1', 'Host: x');
    slow.socket.pause();
    await until(() => seen(requests)['GET /tasks 200'] === 1);
    slow.socket.destroy();
  });

  it('are bounded, whatever is asked', () => {
    const metrics = new RequestMetrics();
    for (let each = 0; each < 10_000; each++) {
      metrics.record({ method: 'GET', route: `/${each}`, status: 200, error: '' }, 0.001);
    }
    expect([...metrics.series()]).to.have.length(500);
  });
});
