import type { QueueEvent, TaskEvent } from './task-state.ts';

/** Parser of the text of `GET /tasks/events`, which may be split at any position. */
export class EventDecoder {
  #rest = '';
  #position: string | undefined;

  /** @param position id of the last known event, if any */
  constructor(position: string | undefined) {
    this.#position = position;
  }

  /** Id of the last event, after which another stream can continue. */
  get position(): string | undefined {
    return this.#position;
  }

  /** Returns the events that the next part of the text completes. */
  decode(text: string): (TaskEvent | QueueEvent)[] {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop() ?? '';
    return blocks.flatMap((block) => this.#read(block));
  }

  #read(block: string): (TaskEvent | QueueEvent)[] {
    const id = field(block, 'id');
    if (id === undefined) return [];
    const event = field(block, 'event');
    // The stream starts with an id without an event. If the id is not that of the last known event, events were missed.
    const isGap = event === 'gap' || (event === undefined && id !== this.#position);
    this.#position = id;
    if (isGap) return [{ event: 'gap' }];
    return event === undefined ? [] : [{ event, ...JSON.parse(field(block, 'data') ?? '{}') }];
  }
}

function field(block: string, name: string): string | undefined {
  const line = block.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2);
}
