import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { tie } from './child.ts';

/** Runs `work` beside a Redis of its own, so that nothing else is on it. */
export async function withRedis<T>(settings: string[], work: (port: number) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'bench-redis-'));
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const redis = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...settings],
    {
      stdio: 'ignore',
    },
  );
  const stop = tie(redis, folder);
  const failed = once(redis, 'error').then(([error]) => {
    throw new Error(`redis-server does not start: ${error.message}`);
  });
  try {
    await Promise.race([answers(port), failed]);
    return await work(port);
  } finally {
    await stop();
  }
}

async function answers(port: number): Promise<void> {
  for (;;) {
    const socket = createConnection({ host: '127.0.0.1', port });
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    if (connected) return;
    await setTimeout(20);
  }
}
