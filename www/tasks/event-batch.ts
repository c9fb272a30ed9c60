import { EventDecoder } from '../client/event-decoder.ts';
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

/** Returns a function that parses the next part of the event stream's text. @param position id of the last known event */
export function batches(position: string | undefined): (text: string) => EventBatch | undefined {
  const decoder = new EventDecoder(position);
  return (text) => {
    const from = decoder.position;
    const decoded = decoder.decode(text);
    const { position: to } = decoder;
    // A part that completes no event, or a heartbeat.
    if (to === undefined || (to === from && decoded.length === 0)) return undefined;
    const events = decoded.filter((each) => 'id' in each);
    const isGap = decoded.some(({ event }) => event === 'gap');
    return { from, to, events, isGap, isPauseChange: decoded.some(({ event }) => /^(paused|resumed)$/.test(event)) };
  };
}
