import { afterTest } from '../../support/cleanup.ts';
import { noteAnswer, serviceAt } from '../../support/contract-watch.ts';

export interface ServerSentEvent {
  id: string;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: specs assert on single properties.
  data: any;
}

/** Follows the events of a service until the end of the test. */
export async function followEvents(url: string, headers: Record<string, string> = {}) {
  const leave = new AbortController();
  afterTest(() => leave.abort());
  const init = { headers: { ...headers, Connection: 'close' }, signal: leave.signal };
  const response = await fetch(`${url}/tasks/events`, init);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const answer = { request: { method: 'GET', path: '/tasks/events' }, status: response.status };
  let [text, lastId] = ['', ''];
  return {
    response,
    /** Returns the newest event id, including ids of blocks without an event. */
    lastId: () => lastId,
    close: () => leave.abort(),
    /** Returns the next event, or undefined if the server has ended the stream. */
    async next(): Promise<ServerSentEvent | undefined> {
      for (;;) {
        for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
          const block = text.slice(0, end);
          text = text.slice(end + 2);
          noteAnswer(serviceAt(url), { ...answer, headers: response.headers, body: `${block}\n\n` });
          const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s) as [string, string]));
          lastId = fields.get('id') ?? lastId;
          const data = fields.get('data');
          if (data !== undefined) return { id: lastId, event: fields.get('event') ?? '', data: JSON.parse(data) };
        }
        const chunk = await reader?.read().catch(() => undefined);
        if (chunk?.value === undefined) return undefined;
        text += chunk.value;
      }
    },
  };
}
