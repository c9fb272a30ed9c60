import { expect } from 'chai';
import { peakResidentBytes } from '../support/proc.ts';
import { request, startServices } from '../support/program.ts';
import { connectRaw } from '../support/raw-connection.ts';
import { eventually } from '../support/until.ts';

const MIB = 1024 * 1024;

describe('clients that do not read a listing of large rows', () => {
  it('cost no more memory than the budget, and others are served', async () => {
    const services = await startServices({ env: { RESPONSE_BUDGET_BYTES: String(16 * MIB) } });
    const port = Number(new URL(services.tasks).port);
    const pid = services.child.pid as number;
    const body = JSON.stringify({ action: 'x', data: { text: 'x'.repeat(MIB - 100) } });
    let id = '';
    for (let task = 0; task < 8; task++) {
      id = (await request(`${services.tasks}/tasks`, { method: 'POST', body })).body.id;
    }
    await eventually(
      async () => (await request(`${services.tasks}/queue`)).body.completed,
      (completed) => completed === 8,
    );
    const before = peakResidentBytes(pid);
    const clients = await Promise.all(
      Array.from({ length: 80 }, () => connectRaw(port, 'GET /tasks HTTP/1.1', 'Host: localhost')),
    );
    for (const { socket } of clients) socket.pause();
    const status = async () => (await request(`${services.tasks}/tasks/${id}`)).status;
    await eventually(status, (found) => found === 503);
    expect(peakResidentBytes(pid) - before).to.be.at.most(192 * MIB);
    expect((await request(`${services.tasks}/queue`)).status).to.equal(200);
    for (const { socket } of clients) socket.destroy();
    await eventually(status, (found) => found === 200);
  });
});
