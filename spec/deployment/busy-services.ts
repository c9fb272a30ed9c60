import { post, type RunningServices, startServices, untilTask } from '../support/program.ts';
import { connect } from '../support/websocket.ts';

/**
 * Starts services and exercises each part a little: valid and invalid tokens, clients that join and leave, and tasks
 * with every outcome.
 */
export async function startBusyServices(env: Record<string, string> = {}): Promise<RunningServices> {
  const services = await startServices({ env: { QUEUE_MAX_BYTES: '1000', ...env } });
  const { ticker, tasks, stream } = services;
  const client = await connect(stream, { token: await services.token() });
  await connect(stream, { token: 'none' }).catch(() => {});
  await post(`${ticker}/auth/token`, { api_key: 'none' });
  const gone = await connect(stream, { token: await services.token() });
  gone.socket.close(1000);
  await gone.closed;
  for (const [number, status] of [
    [1, 'completed'],
    ['1', 'failed'],
  ] as const) {
    const { body } = await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [number] } });
    await untilTask(tasks, body.id, status);
  }
  await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'too much'.repeat(200) } });
  for (let tick = 0; tick < 2; tick++) await client.nextOf('ticker');
  return services;
}
