import type { Fetch } from '../../www/client/http-client.ts';
import { severable } from '../support/severable.ts';

/** A response in place of the service's; or the loss of that response, once all of it has arrived. */
type Fault = ResponseInit | 'lost';

/** Creates a network between a client and a service, with the client's `fetch` and base URL. */
export async function faultyNetwork(service: string) {
  const network = await severable(service);
  const faults = new Map<string, Fault[]>();
  /** Method and path of all requests without an upgrade. */
  const requests: string[] = [];
  const send: Fetch = async (url, init) => {
    requests.push(`${init.method} ${url.pathname}`);
    const fault = faults.get(url.pathname)?.shift();
    if (typeof fault === 'object') return Response.json({ error: 'made up' }, fault);
    const response = await fetch(url, init);
    if (fault === undefined) return response;
    // A stream of events only ends with its connection, as behind a proxy that buffers responses.
    await response.text();
    throw new TypeError('the response is lost');
  };
  return {
    ...{ url: network.url, fetch: send, requests },
    fail: (path: string, ...next: Fault[]) => void faults.set(path, next),
    cut() {
      network.cut();
      network.mend();
    },
  };
}
