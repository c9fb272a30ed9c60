import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { onFreePort } from '../support/free-port.ts';

/** Starts a Redis of its own for one measurement, so that nothing else is on it. Returns its port. */
export function startRedis(...settings: string[]): Promise<number> {
  return onFreePort(async (port) => {
    const dir = await temporaryFolder();
    const args = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--dir', dir, ...settings];
    const redis = spawn('redis-server', args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const exited = once(redis, 'exit');
    afterTest(async () => {
      redis.kill('SIGKILL');
      await exited.catch(() => {});
    });
    const ended = exited.then(([code]) => Promise.reject(new Error(`redis-server ended with exit code ${code}`)));
    const isReady = async () => {
      for await (const line of redis.stdout.setEncoding('utf8')) if (/ready to accept/i.test(line)) break;
    };
    await Promise.race([isReady(), ended]);
    return port;
  });
}
