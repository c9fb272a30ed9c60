import { expect } from 'chai';
import { request, Unreachable } from '../../../www/tasks/tasks-api.ts';
import { replaceGlobal } from './imitated-page.ts';

describe('a request of the task board', () => {
  it('succeeds without a body if the service answers 204', async () => {
    replaceGlobal('fetch', async () => new Response(null, { status: 204 }));
    expect(await request('/tasks/a', { method: 'DELETE' })).to.deep.equal({});
  });

  it('fails with a clear error if the connection ends during the response', async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"tasks":['));
        controller.error(new TypeError('terminated'));
      },
    });
    replaceGlobal('fetch', async () => new Response(body));
    const error = await request('/tasks').catch((caught: unknown) => caught);
    expect(error).to.be.instanceOf(Unreachable);
    expect((error as Error).message).to.equal('The service cannot be reached.');
  });
});
