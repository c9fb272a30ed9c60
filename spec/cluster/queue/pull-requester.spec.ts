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
    ask: () => requester.ask(),
    arrive: () => deliver({ reply: '$JS.ACK.tasks.workers.1.1.1.1.0' } as Msg),
    /** Ends a pull request with 408, which leaves `unanswered` of its messages unanswered. */
    expire(unanswered: number) {
      const headers = { code: 408, get: () => String(unanswered) };
      deliver({ subject: 'inbox', headers } as unknown as Msg);
    },
  };
}

describe('the pull requests of a node', () => {
  it('never ask for more messages than there is room for', () => {
    let room = 3;
    const { requests, ask, arrive } = create(() => room);
    ask();
    expect(requests).to.deep.equal([3]);
    ask();
    expect(requests, 'three are still to come').to.deep.equal([3]);
    room = 5;
    ask();
    expect(requests).to.deep.equal([3, 2]);
    room = 4;
    arrive();
    ask();
    expect(requests, 'four are still to come').to.deep.equal([3, 2]);
    room = 5;
    ask();
    expect(requests).to.deep.equal([3, 2, 1]);
  });

  it('that expire together are repeated as one', async () => {
    let room = 2;
    const { requests, ask, expire } = create(() => room);
    ask();
    room = 5;
    ask();
    expire(2);
    expire(3);
    await new Promise(setImmediate);
    expect(requests).to.deep.equal([2, 3, 5]);
  });
});
