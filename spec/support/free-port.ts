import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * First port to try. Linux assigns ports from 32768 up to outgoing connections and to listeners on port 0, so lower
 * ones stay free.
 */
const FIRST = 16_384;
const EPHEMERAL = 32_768;

/** Number of starts after which a server's failure is reported, because a taken port can no longer be the reason. */
const MAX_STARTS = 5;

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
 * Starts a server on a free port. Tries other ports if the start fails, because another process may take the port
 * first.
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
