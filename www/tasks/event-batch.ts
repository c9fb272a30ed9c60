import type { TaskEvent } from './board-task.ts';

export interface EventBatch {
  /** Id of the last event before the batch, or undefined if the stream has just started. */
  from: string | undefined;
  to: string;
  events: TaskEvent[];
  /** Whether events before or within the batch were missed. */
  isGap: boolean;
  isPauseChange: boolean;
}

/** Parser of the event stream's text, which may be split at any position. */
export class EventDecoder {
  #rest = '';
  #position: string | undefined;

  /** @param position id of the last known event, if any */
  constructor(position: string | undefined) {
    this.#position = position;
  }

  /** Parses the next part of the event stream's text. @returns undefined if the part completes no event */
  decode(text: string): EventBatch | undefined {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop() ?? '';
    const batch: EventBatch = { from: this.#position, to: '', events: [], isGap: false, isPauseChange: false };
    for (const block of blocks) this.#add(block, batch);
    if (batch.to === '') return undefined;
    this.#position = batch.to;
    return batch;
  }

  #add(block: string, batch: EventBatch): void {
    const id = field(block, 'id');
    if (id === undefined) return;
    const event = field(block, 'event');
    // The stream starts with an id without an event. If the id is not that of the last known event, events were missed.
    if (event === undefined) batch.isGap ||= id !== this.#position;
    else if (event === 'gap') batch.isGap = true;
    else if (event === 'paused' || event === 'resumed') batch.isPauseChange = true;
    else batch.events.push({ event, ...JSON.parse(field(block, 'data') ?? '{}') });
    batch.to = id;
  }
}

function field(block: string, name: string): string | undefined {
  const line = block.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2);
}
