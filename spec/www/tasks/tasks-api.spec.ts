import { expect } from 'chai';
import { request, Unreachable } from '../../../www/tasks/tasks-api.ts';
import { replaceGlobal } from './imitated-page.ts';

describe('a request of the task board', () => {
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
