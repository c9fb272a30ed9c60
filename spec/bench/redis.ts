import { spawn } from 'node:child_process';
import { temporaryFolder } from '../support/cleanup.ts';
import { onFreePort } from '../support/free-port.ts';
import { watch } from '../support/program.ts';
import { until } from '../support/until.ts';

/** Starts a Redis of its own for one measurement, so that nothing else is on it. Returns its port. */
export function startRedis(...settings: string[]): Promise<number> {
  return onFreePort(async (port) => {
    const dir = await temporaryFolder();
    const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', dir, ...settings];
    const redis = watch(spawn('redis-server', args));
    const ended = redis.exited.then(({ code }) =>
      Promise.reject(new Error(`redis-server ended with exit code ${code}`)),
    );
    await Promise.race([until(() => /ready to accept/i.test(redis.output())), ended]);
    return port;
  });
}
