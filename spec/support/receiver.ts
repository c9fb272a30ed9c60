import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterTest } from './cleanup.ts';

/** A callback as it arrived. */
export interface Received {
  headers: IncomingHttpHeaders;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: specs assert on single properties.
  body: any;
}

/** Returns a new value of `CALLBACK_SECRET`. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

/** Whether a callback has a signature of this secret. */
export function isSignedBy(secret: string, { headers, text }: Received): boolean {
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${text}`;
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const signature = createHmac('sha256', key).update(signed).digest('base64');
  return String(headers['webhook-signature']).split(' ').includes(`v1,${signature}`);
}

/** Receiver of callbacks, which can go down and come up again on the same port. */
export class Receiver {
  readonly received: Received[] = [];
  status = 204;
  #server: Server | undefined;
  #port = 0;

  /** Listens, at first on a free port. */
  async up(): Promise<void> {
    const server = createServer(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      this.received.push({ headers: request.headers, text, body: JSON.parse(text) });
      response.writeHead(this.status).end();
    });
    this.#server = server;
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#port = (server.address() as AddressInfo).port;
    afterTest(() => this.down());
  }

  async down(): Promise<void> {
    if (this.#server?.listening !== true) return;
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  get host(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get url(): string {
    return `http://${this.host}/hook`;
  }

  /** Returns the callbacks of a task. */
  of(id: string): Received[] {
    return this.received.filter(({ body }) => body.id === id);
  }
}
