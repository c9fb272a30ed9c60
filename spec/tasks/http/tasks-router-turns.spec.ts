import { mock } from 'node:test';
import { expect } from 'chai';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { TURN_BYTES } from '../../../main/http/turn-limit.ts';
import { SMALL_BODY_BYTES } from '../../../main/tasks/http/prepare-submission.ts';
import { countTurns } from '../../support/event-loop-turns.ts';
import { request } from '../../support/program.ts';
import { connectRaw, head, parseResponse } from '../../support/raw-connection.ts';
import { until } from '../../support/until.ts';
import { startTasksServer } from './tasks-server.ts';

const KIB = 1024;

/** Counts the bytes of the calls of a method by event-loop turn. */
function countByTurn<Target extends object, Name extends keyof Target>(
  target: Target,
  name: Name,
  // biome-ignore lint/suspicious/noExplicitAny: the arguments are those of the method.
  bytesOf: (...args: any[]) => number,
): { max(): number; sum(): number } {
  const turn = countTurns();
  const turns = new Map([[0, 0]]);
  const original = target[name] as (...args: unknown[]) => unknown;
  const counted = (...args: unknown[]) => {
    turns.set(turn(), (turns.get(turn()) ?? 0) + bytesOf(...args));
    return original.apply(target, args);
  };
  mock.method(target, name as never, counted as never);
  return { max: () => Math.max(...turns.values()), sum: () => [...turns.values()].reduce((sum, bytes) => sum + bytes) };
}

describe('a turn of the event loop', () => {
  for (const [size, clientCount, parsedBytes, what] of [
    [SMALL_BODY_BYTES, 30, 30 * SMALL_BODY_BYTES, 'a bounded number of bytes, however many bodies are completed then'],
    [SMALL_BODY_BYTES + 1, 10, 0, 'no large body, because a thread does'],
  ] as const) {
    it(`parses ${what}`, async () => {
      const bodyBudget = new ByteBudget(10_000 * KIB);
      const { port } = await startTasksServer({ bodyBudget });
      const body = `{"action":"${'x'.repeat(size - '{"action":""}'.length)}"}`;
      const lines = ['POST /tasks HTTP/1.1', 'Host: x', 'Connection: close', `Content-Length: ${size}`];
      const clients = await Promise.all(Array.from({ length: clientCount }, () => connectRaw(port, ...lines)));
      for (const { socket } of clients) socket.write(body.slice(0, -1));
      await until(() => bodyBudget.used >= clientCount * (size - 1));
      const parsed = countByTurn(JSON, 'parse', ({ length }: string) => (length >= size ? length : 0));
      for (const { socket } of clients) socket.write('}');
      for (const { ended } of clients) expect(parseResponse(await ended).status).to.equal(202);
      expect([bodyBudget.used, parsed.sum()]).to.deep.equal([0, parsedBytes]);
      expect(parsed.max()).to.be.at.most(TURN_BYTES / 4);
    });
  }

  it('reads a bounded number of bytes for lists of rows and of waiting tasks, however many there are', async () => {
    const { queue, storeRow, url } = await startTasksServer({ realRows: false });
    const payload = JSON.stringify('x'.repeat(200 * KIB));
    const row = { payload, status: 'completed', result: '{"output":"x"}', created_at: 1, processed_at: 1 };
    for (const id of 'abcdef') {
      storeRow({ id, ...row });
      await queue.publish({ id: `waiting ${id}`, action: 'x', body: payload });
    }
    const rows = countByTurn(queue.store.reads.rows, 'read', (ids: string[]) => ids.length * payload.length);
    const waiting = countByTurn(queue, 'read', (ids: string[]) => ids.length * payload.length);
    for (const [path, read] of Object.entries({ '/tasks': rows, '/queue/tasks?state=queued': waiting })) {
      const answers = await Promise.all(Array.from({ length: 10 }, () => request(url + path)));
      expect(answers.map(({ body }) => body.count)).to.deep.equal(Array(10).fill(6));
      expect(read.sum(), path).to.equal(60 * payload.length);
      expect(read.max(), path).to.be.at.most(TURN_BYTES + payload.length);
    }
  });

  it('reads a few rows of tasks, however many are asked for', async () => {
    const { queue, storeRow, port, sockets } = await startTasksServer({ realRows: false });
    storeRow({ id: 'a', payload: '{}', status: 'completed', result: '{}', created_at: 1, processed_at: 1 });
    const read = countByTurn(queue, 'find', () => 1);
    const clients = await Promise.all(Array.from({ length: 40 }, () => connectRaw(port)));
    await until(() => sockets.size === 40);
    for (const { socket } of clients) socket.write(head('GET /tasks/a HTTP/1.1', 'Host: x', 'Connection: close'));
    for (const { ended } of clients) expect(parseResponse(await ended).status).to.equal(200);
    expect(read.sum()).to.equal(40);
    expect(read.max()).to.be.at.most(8);
  });
});
