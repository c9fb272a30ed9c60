import { afterTest } from '../../support/cleanup.ts';
import { noteAnswer, serviceAt } from '../../support/contract-watch.ts';

export interface ServerSentEvent {
  id: string;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: specs assert on single properties.
  data: any;
}

/** A client of `GET /tasks/events`. */
export interface EventClient {
  response: Response;
  /** Returns the next event, or undefined if the server has ended the stream. */
  next(): Promise<ServerSentEvent | undefined>;
  /** Returns the newest event id, including ids of blocks without an event. */
  lastId(): string;
  close(): void;
}

/**
 * Follows the events of a service until the end of the test.
 *
 * @param address client address that a trusted proxy reports
 * @param token bearer token
 */
export async function followEvents(
  url: string,
  lastEventId?: string,
  address?: string,
  token?: string,
): Promise<EventClient> {
  const leave = new AbortController();
  afterTest(() => leave.abort());
  const headers = {
    Connection: 'close',
    ...(lastEventId !== undefined && { 'Last-Event-ID': lastEventId }),
    ...(address !== undefined && { 'X-Forwarded-For': address }),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  const response = await fetch(`${url}/tasks/events`, { headers, signal: leave.signal });
  const { status } = response;
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let lastId = '';

  const nextBlock = async (): Promise<string | undefined> => {
    while (!text.includes('\n\n')) {
      const chunk = await reader?.read().catch(() => undefined);
      if (chunk?.value === undefined) return undefined;
      text += chunk.value;
    }
    const end = text.indexOf('\n\n');
    const block = text.slice(0, end);
    text = text.slice(end + 2);
    const request = { method: 'GET', path: '/tasks/events' };
    noteAnswer(serviceAt(url), { request, status, headers: response.headers, body: `${block}\n\n` });
    return block;
  };
  const next = async () => {
    for (;;) {
      const block = await nextBlock();
      if (block === undefined) return undefined;
      const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s) as [string, string]));
      lastId = fields.get('id') ?? lastId;
      const data = fields.get('data');
      if (data !== undefined) return { id: lastId, event: fields.get('event') ?? 'message', data: JSON.parse(data) };
    }
  };
  return { response, next, lastId: () => lastId, close: () => leave.abort() };
}
