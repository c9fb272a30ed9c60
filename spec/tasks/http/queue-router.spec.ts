import { expect } from 'chai';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

describe('POST /queue/pause and /queue/resume', () => {
  it('pause and resume the queue, any number of times', async () => {
    const server = await startTasksServer();
    for (const [path, paused] of [
      ['pause', true],
      ['pause', true],
      ['resume', false],
      ['resume', false],
    ] as const) {
      const { status, body } = await request(`${server.url}/queue/${path}`, { method: 'POST' });
      expect([status, body]).to.deep.equal([200, { paused }]);
      expect(server.queue.isPaused).to.equal(paused);
      expect((await request(`${server.url}/queue`)).body).to.include({ paused });
    }
  });

  it('accept and cancel tasks while the queue is paused', async () => {
    const server = await startTasksServer();
    await server.queue.pause();
    const { status, body } = await server.submit('{"action":"sum"}');
    expect(status).to.equal(202);
    expect(await server.queued()).to.deep.equal([]);
    expect((await request(`${server.tasksUrl}/${body.id}`, { method: 'DELETE' })).status).to.equal(204);
  });

  it('take no other method', async () => {
    const { url } = await startTasksServer();
    for (const path of ['pause', 'resume']) {
      const { status, headers } = await request(`${url}/queue/${path}`);
      expect([status, headers.get('allow')]).to.deep.equal([405, 'POST, OPTIONS']);
    }
  });
});
