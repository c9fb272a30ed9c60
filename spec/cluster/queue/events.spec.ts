import { expect } from 'chai';
import type { NatsLink } from '../../../main/cluster/nats-link.ts';
import { NatsEvents } from '../../../main/cluster/queue/events.ts';
import type { TaskEvent } from '../../../main/tasks/queue/queue.ts';
import { until } from '../../support/until.ts';

/** Creates the events of `count` nodes whose messages reach all nodes at once, without a server. */
function create(count: number) {
  const receivers: ((message: { string(): string }) => void)[] = [];
  const link = {
    prefix: 'spec',
    up: true,
    subscribe: (_subject: string, receive: (typeof receivers)[number]) => receivers.push(receive),
    connection: {
      publish(_subject: string, text: string) {
        for (const receive of receivers) receive({ string: () => text });
      },
    },
  };
  return Array.from({ length: count }, () => {
    const received: TaskEvent['event'][] = [];
    const events = new NatsEvents(link as unknown as NatsLink, ({ event }) => received.push(event));
    return { events, received };
  });
}

const accepted: TaskEvent = { event: 'accepted', id: 'a', action: 'run', at: 1 };
const started: TaskEvent = { event: 'started', id: 'a', action: 'run', at: 2, attempt: 1 };

describe('NatsEvents', () => {
  it('know a task as running elsewhere that starts before its own node learns that it is stored', async () => {
    const [submitting, running] = create(2);
    running?.events.tell(started);
    await until(() => submitting?.received.length === 1);
    submitting?.events.tell(accepted);
    expect(submitting?.events.runningElsewhere('a')).to.deep.equal({ attempt: 1, startedAt: 2 });
  });

  it('know a task as running elsewhere whose start is reported before its acceptance', async () => {
    const [submitting, running, third] = create(3);
    running?.events.tell(started);
    await until(() => third?.received.length === 1);
    submitting?.events.tell(accepted);
    await until(() => third?.received.length === 2);
    expect(third?.events.runningElsewhere('a')).to.deep.equal({ attempt: 1, startedAt: 2 });
  });

  it('are sent in the turn that reports them, before another node can report a later event of the task', async () => {
    const [submitting, running] = create(2);
    submitting?.events.tell(accepted);
    await new Promise(setImmediate);
    running?.events.tell(started);
    await new Promise(setImmediate);
    expect(running?.received).to.deep.equal(['accepted', 'started']);
    expect(submitting?.received).to.deep.equal(['accepted', 'started']);
  });

  it('know that a task has ended elsewhere', async () => {
    const [running, other] = create(2);
    running?.events.tell(started);
    running?.events.tell({ event: 'completed', id: 'a', action: 'run', at: 3 });
    await until(() => other?.received.length === 2);
    expect(other?.events.runningElsewhere('a')).to.equal(undefined);
  });
});
