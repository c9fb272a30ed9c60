import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { type HttpResponse, post, request, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';
import { followEvents } from '../tasks/http/event-client.ts';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** Requests the listing until it fits. */
function listing(url: string, fits: (answer: HttpResponse) => boolean): Promise<HttpResponse> {
  return eventually(() => request(url), fits);
}

function idsIn({ body }: HttpResponse): string[] {
  return body.tasks.map(({ id }: { id: string }) => id);
}

describe('service B, end to end', () => {
  const services = onceForSuite(() => startServices());

  it('answers a submission at once and stores its row when it is done', async () => {
    const { tasks } = services();
    const before = Math.floor(Date.now() / 1000);
    const { status, body } = await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'straße' } });
    expect(status).to.equal(202);
    expect(body).to.have.all.keys('id', 'status');
    expect(body.id).to.match(UUID_V4);
    expect(body.status).to.equal('queued');

    const answer = await listing(`${tasks}/tasks`, (found) => idsIn(found).includes(body.id));
    expect(answer.body.count).to.equal(answer.body.tasks.length);
    const row = answer.body.tasks.find(({ id }: { id: string }) => id === body.id);
    expect(row).to.have.all.keys('id', 'payload', 'status', 'result', 'created_at', 'processed_at');
    expect(row).to.include({ id: body.id, status: 'completed', result: '{"output":"STRASSE"}' });
    expect(JSON.parse(row.payload)).to.deep.equal({
      id: body.id,
      action: 'uppercase',
      data: { text: 'straße' },
      created_at: row.created_at,
    });
    expect(row.created_at).to.be.within(before, Date.now() / 1000);
    expect(row.processed_at).to.be.within(row.created_at, Date.now() / 1000);
  });

  it('works every action off as the specification says', async () => {
    const { tasks } = services();
    const expected: [submission: object, output: unknown][] = [
      [{ action: 'uppercase', data: { text: 'abc' } }, 'ABC'],
      [{ action: 'uppercase' }, ''],
      [{ action: 'sum', data: { numbers: [1, 2.5, -3] } }, 0.5],
      [{ action: 'sum', data: {} }, 0],
      [{ action: 'anything else', data: { text: 'abc' } }, 'processed'],
      [{ action: '' }, 'processed'],
      [{ action: '__proto__' }, 'processed'],
      [{ action: 'constructor', data: { deep: [[[]]] } }, 'processed'],
    ];
    const outputs = new Map<string, unknown>();
    for (const [submission, output] of expected) {
      const { body } = await post(`${tasks}/tasks`, submission);
      outputs.set(body.id, output);
    }
    const { body } = await listing(`${tasks}/tasks`, (found) =>
      [...outputs.keys()].every((id) => idsIn(found).includes(id)),
    );
    const rows = body.tasks.filter(({ id }: { id: string }) => outputs.has(id));
    expect(rows).to.have.lengthOf(expected.length);
    for (const { id, result } of rows) expect(JSON.parse(result)).to.deep.equal({ output: outputs.get(id) });
  });

  it('completes every one of 500 submissions, and lists the newest 100', async () => {
    const { tasks } = services();
    const before = (await request(`${tasks}/queue`)).body;
    const submit = async (count: number) => {
      for (let i = 0; i < count; i++) expect((await post(`${tasks}/tasks`, { action: 'sum' })).status).to.equal(202);
    };
    await Promise.all(Array.from({ length: 20 }, () => submit(25)));
    const last = (await post(`${tasks}/tasks`, { action: 'last' })).body.id;
    const { body } = await listing(`${tasks}/tasks?status=completed`, (answer) =>
      answer.body.tasks.some(({ id }: { id: string }) => id === last),
    );
    const { body: queue } = await eventually(
      () => request(`${tasks}/queue`),
      (answer) => answer.body.waiting + answer.body.delayed + answer.body.in_flight === 0,
    );
    expect([queue.accepted - before.accepted, queue.completed - before.completed]).to.deep.equal([501, 501]);
    expect(queue).to.include({ dead: before.dead, dropped: 0 });
    for (const { p50, p95, p99 } of [queue.latency.waiting, queue.latency.running]) {
      expect(p50).to.be.above(0);
      expect([p50, p95, p99]).to.deep.equal([p50, p95, p99].sort((a, b) => a - b));
    }
    expect(body.count).to.equal(100);
    expect(body.tasks).to.have.length(100);
    const times = body.tasks.map((row: { created_at: number }) => row.created_at);
    expect(times).to.deep.equal([...times].sort((a, b) => b - a));
    expect((await request(`${tasks}/tasks?status=pending`)).body).to.deep.equal({ tasks: [], count: 0 });
  });

  it('lists tasks of one second in the order of their arrival, the newest first', async () => {
    const { tasks } = services();
    const ids: string[] = [];
    for (let i = 0; i < 60; i++) ids.unshift((await post(`${tasks}/tasks`, { action: 'sum' })).body.id);
    const found = await listing(`${tasks}/tasks`, (answer) => ids.every((id) => idsIn(answer).includes(id)));
    expect(idsIn(found).slice(0, ids.length)).to.deep.equal(ids);
  });

  it('discards a task that cannot succeed, and stores no row for it', async () => {
    const { tasks, logged } = services();
    const { body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
    const line = await logged(({ task }) => task === body.id);
    expect(line).to.include({ decision: 'discard', attempt: 1, reason: 'data.numbers must hold finite numbers only' });
    // The line is logged before the dead letter is stored.
    await eventually(
      () => request(`${tasks}/tasks/${body.id}`),
      ({ body }) => body.status === 'failed',
    );
    expect(idsIn(await request(`${tasks}/tasks`))).to.not.include(body.id);
  });

  it('answers unknown paths and methods as JSON', async () => {
    const { tasks } = services();
    expect(await request(`${tasks}/nothing/here`)).to.deep.include({ status: 404, body: { error: 'not found' } });
    const refused = await request(`${tasks}/tasks`, { method: 'DELETE' });
    expect(refused).to.deep.include({ status: 405, body: { error: 'method not allowed' } });
    expect(refused.headers.get('allow')).to.equal('GET, HEAD, POST, OPTIONS');
  });

  it('answers with the row when the client prefers to wait', async () => {
    const { tasks } = services();
    const { status, body, headers } = await request(`${tasks}/tasks`, {
      method: 'POST',
      headers: { Prefer: 'wait=20' },
      body: '{"action":"uppercase","data":{"text":"wait"}}',
    });
    expect(status).to.equal(200);
    expect(headers.get('preference-applied')).to.equal('wait=20');
    expect(body).to.include({ status: 'completed', result: '{"output":"WAIT"}' });
    expect((await request(`${tasks}/tasks/${body.id}`)).body).to.deep.equal(body);
  });

  it('lists rows that are far too large to be put together in memory', async () => {
    const { tasks } = services();
    const text = 'é"'.repeat(100_000);
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) {
      ids.unshift((await post(`${tasks}/tasks`, { action: 'uppercase', data: { text } })).body.id);
    }
    const ended = (id: string) =>
      eventually(
        () => request(`${tasks}/tasks/${id}`),
        ({ body }) => body.status === 'completed',
      );
    for (const id of ids) await ended(id);
    const { status, headers, body } = await request(`${tasks}/tasks`);
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    const rows = body.tasks.slice(0, ids.length);
    expect(rows.map(({ id }: { id: string }) => id)).to.deep.equal(ids);
    for (const row of rows) expect(JSON.parse(row.result)).to.deep.equal({ output: text.toUpperCase() });
    expect((await request(`${tasks}/tasks`, { method: 'HEAD' })).status).to.equal(200);
  });
});

describe('service B with small limits, end to end', () => {
  const services = onceForSuite(() => startServices({ env: { BODY_LIMIT: '1000', QUEUE_MAX_LENGTH: '2' } }));

  it('refuses bad submissions with the specified errors', async () => {
    const { tasks } = services();
    const before = (await request(`${tasks}/queue`)).body.accepted;
    const submit = (body: string) => request(`${tasks}/tasks`, { method: 'POST', body });
    for (const text of ['', '{', 'action=sum', '{"action":"sum"']) {
      expect(await submit(text)).to.deep.include({ status: 400, body: { error: 'invalid JSON' } });
    }
    for (const text of ['{}', 'null', '[]', '"sum"', '{"action":1}', '{"action":null}']) {
      expect(await submit(text)).to.deep.include({ status: 400, body: { error: 'action required' } });
    }
    expect(await submit('{"action":"sum","data":[]}')).to.deep.include({
      status: 400,
      body: { error: 'data must be an object' },
    });
    expect(await submit(`{"action":"${'x'.repeat(1000)}"}`)).to.deep.include({
      status: 413,
      body: { error: 'request body too large' },
    });
    expect((await request(`${tasks}/queue`)).body.accepted).to.equal(before);
  });

  it('refuses submissions with 500 while the queue is full, and takes them again when it is not', async () => {
    const { tasks } = services();
    const submit = () => post(`${tasks}/tasks`, { action: 'x' });
    const crowd = () => Promise.all(Array.from({ length: 20 }, submit));
    const answers = await eventually(crowd, (all) => all.some(({ status }) => status !== 202));
    for (const { status, body, headers } of answers.filter((answer) => answer.status !== 202)) {
      expect({ status, body }).to.deep.equal({ status: 500, body: { error: 'failed to queue task' } });
      expect(headers.get('retry-after')).to.equal('1');
    }
    await eventually(submit, ({ status }) => status === 202);
  });
});

describe('the events of service B, end to end', () => {
  it('tell those who follow of each step, and of the end of the service', async () => {
    const services = await startServices();
    const client = await followEvents(services.tasks);
    const good = (await post(`${services.tasks}/tasks`, { action: 'sum' })).body.id;
    const steps = [];
    for (let step = 0; step < 3; step++) steps.push(await client.next());
    expect(steps.map((step) => [step?.event, step?.data.id])).to.deep.equal([
      ['accepted', good],
      ['started', good],
      ['completed', good],
    ]);
    const bad = (await post(`${services.tasks}/tasks`, { action: 'sum', data: { numbers: 'x' } })).body.id;
    const ends = [await client.next(), await client.next(), await client.next()];
    expect(ends[2]?.data).to.include({ id: bad, status: 'failed', attempts: 1 });
    services.child.kill('SIGTERM');
    expect(await client.next()).to.equal(undefined);
    expect((await services.exited).code).to.equal(0);
  });
});
