import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Linux takes ports from 32768 up for listeners on port 0 and for outgoing connections, so a lower one stays free. */
const FIRST = 16_384;
const EPHEMERAL = 32_768;

/** Starts of a server until its failure is reported: by then the port is not the reason. */
const MAX_STARTS = 5;

/** A port without a listener at this moment. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, EPHEMERAL);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/**
 * Starts a server on a free port. It is started again on another port if it fails, because another process may take the
 * port first.
 */
export async function onFreePort<Started>(start: (port: number) => Promise<Started>): Promise<Started> {
  for (let starts = 1; ; starts++) {
    try {
      return await start(await freePort());
    } catch (error) {
      if (starts === MAX_STARTS) throw error;
    }
  }
}
