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

/** Sends ten requests at the same time, each of which must be answered with a list of six. */
async function listAtOnce(url: string): Promise<void> {
  const answers = await Promise.all(Array.from({ length: 10 }, () => request(url)));
  expect(answers.map(({ body }) => body.count)).to.deep.equal(Array(10).fill(6));
}

describe('a turn of the event loop', () => {
  /** Completes bodies of `size` bytes at the same time. Returns the bytes parsed in each event-loop turn. */
  async function parsedByTurn(size: number, clientCount: number) {
    const bodyBudget = new ByteBudget(10_000 * KIB);
    const { port } = await startTasksServer({ bodyLimit: size, bodyBudget, maxBytes: 10_000 * KIB });
    const body = `{"action":"${'x'.repeat(size - '{"action":""}'.length)}"}`;
    const lines = ['POST /tasks HTTP/1.1', 'Host: x', 'Connection: close', `Content-Length: ${size}`];
    const clients = await Promise.all(Array.from({ length: clientCount }, () => connectRaw(port, ...lines)));
    for (const { socket } of clients) socket.write(body.slice(0, -1));
    await until(() => bodyBudget.used >= clientCount * (size - 1));

    const parsed = countByTurn(JSON, 'parse', ({ length }: string) => (length >= size ? length : 0));
    for (const { socket } of clients) socket.write('}');
    for (const { ended } of clients) expect(parseResponse(await ended).status).to.equal(202);
    expect(bodyBudget.used).to.equal(0);
    return parsed;
  }

  it('parses a bounded number of bytes, however many bodies are completed in one moment', async () => {
    const parsed = await parsedByTurn(SMALL_BODY_BYTES, 30);
    expect(parsed.sum()).to.equal(30 * SMALL_BODY_BYTES);
    expect(parsed.max()).to.be.at.most(TURN_BYTES / 4);
  });

  it('parses no large body, because a thread does', async () => {
    const parsed = await parsedByTurn(SMALL_BODY_BYTES + 1, 10);
    expect(parsed.sum()).to.equal(0);
  });

  it('reads a bounded number of bytes for listings, however many there are', async () => {
    const { queue, storeRow, tasksUrl } = await startTasksServer({ realRows: false });
    const payload = JSON.stringify({ text: 'x'.repeat(200 * KIB) });
    for (let row = 0; row < 6; row++) {
      const result = '{"output":"x"}';
      storeRow({ id: `t${row}`, payload, status: 'completed', result, created_at: row, processed_at: row });
    }
    const read = countByTurn(queue.store.rows, 'read', () => payload.length);
    await listAtOnce(tasksUrl);
    expect(read.sum()).to.equal(60 * payload.length);
    expect(read.max()).to.be.at.most(TURN_BYTES + payload.length);
  });

  it('reads a bounded number of bytes for lists of waiting tasks, however many there are', async () => {
    const size = 100 * KIB;
    const { queue, url } = await startTasksServer({ realRows: false, maxBytes: 10_000 * KIB });
    for (let task = 0; task < 6; task++) {
      await queue.publish({ id: `t${task}`, action: 'x', body: JSON.stringify('x'.repeat(size - 2)) });
    }
    const read = countByTurn(queue, 'read', (ids: string[]) => ids.length * size);
    await listAtOnce(`${url}/queue/tasks?state=queued`);
    expect(read.sum()).to.equal(60 * size);
    expect(read.max()).to.be.at.most(2 * TURN_BYTES);
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
