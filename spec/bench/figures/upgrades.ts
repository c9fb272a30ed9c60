import { setTimeout } from 'node:timers/promises';
import { Crowd } from '../../load/crowd.ts';
import type { Figure } from '../figure.ts';
import { type Server, startPeer, startProduct } from '../server.ts';

/** What it costs to let clients in, all at once. */
export function upgrades(clients: number): Figure {
  return {
    name: `${clients} upgrades in a storm`,
    contenders: {
      product: () => measureProduct(clients, 1),
      'product, a token each': () => measureProduct(clients, clients),
      'ws accept': async () => {
        const { server, address } = await startPeer('ws-loop');
        return measure(server, { ...address, path: '/' }, clients, []);
      },
    },
    readings: [
      {
        key: 'cpu',
        name: 'server CPU an upgrade, one token',
        unit: 'µs',
        beside: 'ws accept',
        target: { atMost: 2 },
      },
      {
        key: 'cpu',
        name: 'server CPU an upgrade, a token each',
        unit: 'µs',
        of: 'product, a token each',
        beside: 'ws accept',
        target: { atMost: 3 },
      },
      { key: 'failed', name: 'connections failed', unit: '', target: { atMost: 0 } },
    ],
  };
}

async function measureProduct(clients: number, count: number): Promise<Record<string, number>> {
  const { server, ticker, token } = await startProduct({
    TOKEN_REQUESTS_PER_MINUTE: '1000000',
    TOKENS_PER_KEY: '100000',
  });
  const tokens: string[] = [];
  while (tokens.length < count) {
    tokens.push(...(await Promise.all(Array.from({ length: Math.min(50, count - tokens.length) }, token))));
  }
  return measure(server, { ...ticker, path: '/ws/ticker' }, clients, tokens);
}

async function measure(
  server: Server,
  target: { host: string; port: number; path: string },
  clients: number,
  tokens: string[],
): Promise<Record<string, number>> {
  await setTimeout(1000);
  const crowd = new Crowd({ target, connections: clients, concurrency: 500, tokens });
  try {
    const cpu = server.cpu();
    await crowd.gather();
    return { cpu: ((server.cpu() - cpu) / clients) * 1e6, failed: clients - crowd.size };
  } finally {
    crowd.disperse();
    await server.stop();
  }
}
