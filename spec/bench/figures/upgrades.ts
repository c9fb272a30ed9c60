import { setTimeout } from 'node:timers/promises';
import type { StreamTarget } from '../../load/stream-client.ts';
import { type Program, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf, gatherCrowd, startPeer, streamOf } from '../server.ts';

const TOKEN_EACH = 'product, a token each';

/** What it costs to let clients in, all at once. */
export function upgrades(clients: number): Figure {
  const cpu = { key: 'cpu', unit: 'µs', beside: 'ws accept' };
  return {
    name: `${clients} upgrades in a storm`,
    contenders: {
      product: () => measureProduct(clients, 1),
      [TOKEN_EACH]: () => measureProduct(clients, clients),
      'ws accept': async () => {
        const { server, port } = await startPeer('ws-loop');
        return measure(server, { host: '127.0.0.1', port, path: '/' }, clients);
      },
    },
    readings: [
      { ...cpu, name: 'server CPU an upgrade, one token', target: { atMost: 2 } },
      { ...cpu, name: 'server CPU an upgrade, a token each', of: TOKEN_EACH, target: { atMost: 3 } },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
    ],
  };
}

async function measureProduct(clients: number, count: number) {
  const services = await startServices({ env: { TOKEN_REQUESTS_PER_MINUTE: '1000000', TOKENS_PER_KEY: '100000' } });
  const tokens: string[] = [];
  while (tokens.length < count) {
    const batch = Array.from({ length: Math.min(50, count - tokens.length) }, services.token);
    tokens.push(...(await Promise.all(batch)));
  }
  return measure(services, await streamOf(services), clients, tokens);
}

async function measure(server: Program, target: StreamTarget, clients: number, tokens: string[] = []) {
  await setTimeout(1000);
  const cpu = cpuOf(server);
  const crowd = await gatherCrowd({ target, connections: clients, concurrency: 500, tokens });
  return { cpu: ((cpuOf(server) - cpu) / clients) * 1e6, failed: clients - crowd.size };
}
