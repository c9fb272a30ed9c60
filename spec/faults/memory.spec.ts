import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { peakResidentBytes, resetPeak } from '../support/proc.ts';
import { post, request, startServices, untilAnswer } from '../support/program.ts';
import { connectRaw, parseResponse } from '../support/raw-connection.ts';

const MIB = 1024 * 1024;
const MAX_GROWTH = 192 * MIB;

describe('the memory of a process', () => {
  const started = onceForSuite(() => startServices({ env: { RESPONSE_BUDGET_BYTES: String(16 * MIB) } }));

  it('grows by the bytes of request bodies only, however small their chunks are', async () => {
    const { tasks, child } = started();
    const before = resetPeak(child.pid as number);
    const text = `{"action":"${'x'.repeat(MIB / 2)}"}`;
    const chunks = `${text.replaceAll(/.{1,16}/g, (part) => `${part.length.toString(16)}\r\n${part}\r\n`)}0\r\n\r\n`;
    const submit = async () => {
      const lines = ['POST /tasks HTTP/1.1', 'Host: localhost', 'Connection: close', 'Transfer-Encoding: chunked'];
      const connection = await connectRaw(Number(new URL(tasks).port), ...lines);
      connection.socket.write(chunks);
      expect(parseResponse(await connection.ended).status).to.equal(202);
    };
    await Promise.all([submit(), submit()]);
    expect(peakResidentBytes(child.pid as number) - before).to.be.at.most(MAX_GROWTH);
  });

  it('stays within the budget of responses while clients do not read a listing of large rows, and others are served', async () => {
    const { tasks, child } = started();
    const { completed: others } = (await request(`${tasks}/queue`)).body;
    let id = '';
    for (let task = 0; task < 8; task++) {
      id = (await post(`${tasks}/tasks`, { action: 'x', data: { text: 'x'.repeat(MIB - 100) } })).body.id;
    }
    await untilAnswer(`${tasks}/queue`, ({ body }) => body.completed >= others + 8);
    const before = resetPeak(child.pid as number);
    const get = () => connectRaw(Number(new URL(tasks).port), 'GET /tasks HTTP/1.1', 'Host: localhost');
    const clients = await Promise.all(Array.from({ length: 80 }, get));
    for (const { socket } of clients) socket.pause();
    await untilAnswer(`${tasks}/tasks/${id}`, ({ status }) => status === 503);
    expect(peakResidentBytes(child.pid as number) - before).to.be.at.most(MAX_GROWTH);
    expect((await request(`${tasks}/queue`)).status).to.equal(200);
    for (const { socket } of clients) socket.destroy();
    await untilAnswer(`${tasks}/tasks/${id}`, ({ status }) => status === 200);
  });
});
