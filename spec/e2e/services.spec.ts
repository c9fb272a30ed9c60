import { expect } from 'chai';
import type { Price } from '../../www/client/tick-stream.ts';
import { onceForSuite } from '../support/cleanup.ts';
import { examples } from '../support/examples.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';
import { eventually, until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('the services in a process of their own', () => {
  const started = onceForSuite(async () => {
    const startedAt = Math.floor(Date.now() / 1000);
    return { startedAt, services: await startServices({ env: { TASK_RETENTION_ROWS: '3' } }) };
  });

  it('exchange the logged API key for a token, with which they stream prices once per second', async () => {
    const { startedAt, services } = started();
    const { status, headers, body } = await post(`${services.ticker}/auth/token`, { api_key: services.apiKey });
    expect([status, headers.get('access-control-allow-origin')]).to.deep.equal([200, '*']);
    expect(body).to.include({ user_id: 'demo', role: 'user', expires_in: 3600 });
    const client = await connect(services.stream, { token: body.token });
    expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    const snapshot: Price[] = (await client.next()).data;
    expect(snapshot.map(({ symbol }) => symbol)).to.have.members(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const entry of snapshot) {
      expect(entry.price).to.equal(Math.round(entry.price * 100) / 100);
      expect(entry.timestamp).to.be.within(startedAt, Date.now() / 1000 + 1);
    }
    const seconds: number[] = [];
    while (seconds.length < 4) seconds.push((await client.nextOf('ticker')).data[0].timestamp);
    // Three intervals of a second. On a loaded machine the first tick may be late, and ticks may be skipped.
    expect((seconds[3] as number) - (seconds[0] as number)).to.be.within(2, 30);
  });

  it('answer a submission with 202, and list the row of the task once it is completed', async () => {
    const { tasks } = started().services;
    const before = Math.floor(Date.now() / 1000);
    const { status, body } = await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'straße' } });
    expect([status, body]).to.deep.equal([202, { id: body.id, status: 'queued' }]);
    expect(body.id).to.match(UUID_V4);
    const { attempts, waited_ms, ran_ms, history, ...row } = await untilTask(tasks, body.id);
    expect(row).to.include({ id: body.id, status: 'completed', result: '{"output":"STRASSE"}' });
    // A node of several adds its id.
    const [{ started_at_ms, ended_at_ms, node: _node, ...attempt }] = history;
    expect(attempt).to.deep.equal({ reason: null });
    expect([attempts, ran_ms]).to.deep.equal([1, ended_at_ms - started_at_ms]);
    expect(started_at_ms - waited_ms).to.be.within(before * 1000, started_at_ms);
    const { created_at, processed_at } = row;
    const message = { id: body.id, action: 'uppercase', data: { text: 'straße' }, created_at };
    expect(JSON.parse(row.payload)).to.deep.equal(message);
    expect(created_at).to.be.within(before, processed_at);
    expect(processed_at).to.be.at.most(Date.now() / 1000 + 1);
    expect((await request(`${tasks}/tasks`)).body).to.deep.equal({ tasks: [row], count: 1 });
  });

  it('keep the newest TASK_RETENTION_ROWS rows while tasks are submitted, and log no error', async () => {
    const { tasks, lines } = started().services;
    const action = ({ payload }: { payload: string }) => JSON.parse(payload).action;
    const listed = async () => (await request(`${tasks}/tasks`)).body.tasks.map(action);
    let most = 0;
    await until(async () => {
      await post(`${tasks}/tasks/batch`, { tasks: Array(10).fill({ action: 'sum' }) });
      const { length } = await listed();
      most = Math.max(most, length);
      return length < most;
    });
    expect(await eventually(listed, (actions) => actions.length <= 3)).to.deep.equal(['sum', 'sum', 'sum']);
    expect(lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  });

  it('send at each tick with TICKER_SEED the prices of the formula in the guide, for the number of the tick', async () => {
    const [formula = ''] = examples('www/guide/api.md', 'Ticker, port 8081', 'js');
    const { price } = await import(`data:text/javascript,${encodeURIComponent(`${formula}\nexport { price };`)}`);
    const env = { TICKER_SEED: 'a seed of mine', TICK_INTERVAL_MS: '100' };
    const { stream, token } = await startServices({ env });
    const client = await connect(stream, { token: await token(), protocols: ['ticker.v2'] });
    for (let count = 0; count < 3; count++) {
      const { seq, data } = await client.nextOf('ticker');
      expect(data).to.have.length(3);
      for (const entry of data) expect(entry.price).to.equal(price(env.TICKER_SEED, entry.symbol, seq));
    }
  });
});
