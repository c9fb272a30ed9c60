import type { Msg } from '@nats-io/transport-node';
import { expect } from 'chai';
import { PullRequester } from '../../../main/cluster/queue/pull-requester.ts';
import type { Stream } from '../../../main/cluster/queue/stream.ts';

/** Creates a requester with room for `room()` messages. Its pull requests reach no server. */
function create(room: () => number) {
  /** Batch size of each pull request. */
  const requests: number[] = [];
  let deliver: (message: Msg) => void = () => {};
  const link = {
    up: true,
    onUp: () => () => {},
    subscribe(_subject: string, receive: typeof deliver) {
      deliver = receive;
      return { unsubscribe() {} };
    },
    connection: { publish: (_subject: string, request: string) => requests.push(JSON.parse(request).batch) },
  };
  const tasks = { link, name: 'tasks' } as unknown as Stream;
  const requester = new PullRequester({ tasks, room, receive() {} });
  return {
    requests,
    async ask() {
      requester.ask();
      // The requester publishes in a microtask.
      await Promise.resolve();
    },
    arrive: () => deliver({ reply: '$JS.ACK.tasks.workers.1.1.1.1.0' } as Msg),
  };
}

describe('the pull requests of a node', () => {
  it('never ask for more messages than there is room for', async () => {
    let room = 3;
    const { requests, ask, arrive } = create(() => room);
    await ask();
    expect(requests).to.deep.equal([3]);
    await ask();
    expect(requests, 'three are still to come').to.deep.equal([3]);
    room = 5;
    await ask();
    expect(requests).to.deep.equal([3, 2]);
    room = 4;
    arrive();
    await ask();
    expect(requests, 'four are still to come').to.deep.equal([3, 2]);
    room = 5;
    await ask();
    expect(requests).to.deep.equal([3, 2, 1]);
  });
});
