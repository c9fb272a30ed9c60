import type { StoredMsg } from '@nats-io/jetstream';
import { actionStart, cut } from '../../../workers/parse-submission.ts';
import { LISTED_LENGTH, LISTED_TASKS } from '../../tasks/queue/listing.ts';
import { lowest } from '../../tasks/queue/lowest.ts';
import type { ListedState, ListedTask, UnfinishedState } from '../../tasks/queue/queue.ts';
import type { NodeDeliveries } from './node-deliveries.ts';
import { acceptedAtOf, inFlightState, type PendingDelivery, taskIdOf, textOf } from './pending-delivery.ts';
import type { QueueParts } from './queue-parts.ts';
import { CONSUMER_NAME } from './queue-streams.ts';
import { token } from './stream.ts';

/** Time for which a list is reused, so that many clients cause no more requests to JetStream than one client. */
const FRESH_MS = 1000;
/** Maximum number of delivered messages checked to list queued tasks, because most of them are already in flight. */
const MAX_DELIVERED = 200;
const MAX_NOTES = 2000;
/** Enough bytes for the characters that `actionStart` reads. */
const HEAD_BYTES = 8192;

type Admit = (bytes: number) => Promise<void>;

/** Lists of the unfinished tasks of all nodes. A list may be a second old. */
export class NatsTaskLists {
  readonly #parts: QueueParts;
  readonly #deliveries: NodeDeliveries;
  /** Latest list of the tasks in each state. `freshUntil` is a monotonic time in milliseconds. */
  readonly #lists = new Map<ListedState, { tasks: Promise<ListedTask[]>; freshUntil: number }>();

  constructor(parts: QueueParts, deliveries: NodeDeliveries) {
    this.#parts = parts;
    this.#deliveries = deliveries;
  }

  /** @throws {Error} if JetStream does not respond */
  list(state: ListedState, admit: Admit): Promise<ListedTask[]> {
    const last = this.#lists.get(state);
    if (last !== undefined && performance.now() < last.freshUntil) return last.tasks;
    const tasks = { queued: this.#queued, running: this.#running, retrying: this.#retrying }[state].call(this, admit);
    const list = { tasks, freshUntil: Infinity };
    this.#lists.set(state, list);
    tasks.then(
      () => {
        list.freshUntil = performance.now() + FRESH_MS;
      },
      () => this.#lists.delete(state),
    );
    return tasks;
  }

  async #queued(admit: Admit): Promise<ListedTask[]> {
    const { tasks } = this.#parts;
    const [{ first_seq: first, messages }, { delivered }] = await Promise.all([
      tasks.state(),
      tasks.link.manager.consumers.info(tasks.name, CONSUMER_NAME),
    ]);
    const found: ListedTask[] = [];
    if (messages === 0) return found;
    let next = first;
    for (let read = 0; found.length < LISTED_TASKS; read++) {
      if (read === MAX_DELIVERED) next = Math.max(next, delivered.stream_seq + 1);
      const message = await tasks.nextFrom(next);
      if (message === null) break;
      next = message.seq + 1;
      await admit(message.data.length);
      if (message.seq > delivered.stream_seq || (await this.#isWaiting(message)))
        found.push(listed(message, { state: 'queued' }));
    }
    return found;
  }

  async #isWaiting({ seq, subject, header }: StoredMsg): Promise<boolean> {
    const pending = this.#deliveries.at(seq);
    if (pending !== undefined) return pending.delivery === undefined;
    const id = taskIdOf(subject, header);
    if (this.#parts.events.runningElsewhere(id) !== undefined) return false;
    const note = await this.#parts.notes.get(token(id));
    return note === undefined || note.value.dueAt <= Date.now();
  }

  async #running(admit: Admit): Promise<ListedTask[]> {
    const { events } = this.#parts;
    const own = [...this.#deliveries.all()].filter(({ delivery }) => delivery !== undefined);
    const candidates: (PendingDelivery | { id: string; startedAt?: number | undefined })[] = own;
    for (const id of events.elsewhere()) candidates.push({ id, startedAt: events.runningElsewhere(id)?.startedAt });
    const first = lowest(candidates, LISTED_TASKS, ({ startedAt }) => startedAt ?? Number.MAX_VALUE);
    const found: ListedTask[] = [];
    for (const candidate of first) {
      if ('body' in candidate) found.push(ownListed(candidate));
      else {
        const message = await this.#read(token(candidate.id), admit);
        const state = events.runningElsewhere(candidate.id);
        if (message !== null && state !== undefined) found.push(listed(message, { state: 'running', ...state }));
      }
    }
    return found;
  }

  async #retrying(admit: Admit): Promise<ListedTask[]> {
    const now = Date.now();
    const notes = [...(await this.#parts.notes.newest(MAX_NOTES))].filter(([, { dueAt }]) => dueAt > now);
    const found: ListedTask[] = [];
    for (const [item, { attempts, reason, dueAt }] of lowest(notes, LISTED_TASKS, ([, note]) => note.dueAt)) {
      const message = await this.#read(item, admit);
      if (message !== null) found.push(listed(message, { state: 'retrying', attempts, reason, dueAt }));
    }
    return found;
  }

  async #read(item: string, admit: Admit): Promise<StoredMsg | null> {
    const message = await this.#parts.tasks.last(item);
    if (message !== null) await admit(message.data.length);
    return message;
  }
}

function ownListed(pending: PendingDelivery): ListedTask {
  const { id, action, acceptedAt, body, bytes } = pending;
  const payload = cut(body, LISTED_LENGTH);
  return { id, action, acceptedAt, payload, payloadBytes: bytes, progress: inFlightState(pending) };
}

function listed({ data, subject, header, time }: StoredMsg, progress: UnfinishedState): ListedTask {
  const head = textOf(data.subarray(0, HEAD_BYTES));
  return {
    id: taskIdOf(subject, header),
    action: actionStart(head),
    acceptedAt: acceptedAtOf(header, time.getTime()),
    payload: cut(head, LISTED_LENGTH),
    payloadBytes: data.length,
    progress,
  };
}
