import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { connect } from '../support/websocket.ts';

/**
 * Starts services and exercises each part a little: valid and invalid tokens, clients that join and leave, and tasks
 * with every outcome.
 */
export async function startBusyServices(): Promise<RunningServices> {
  const services = await startServices({ env: { QUEUE_MAX_BYTES: '1000' } });
  const { ticker, tasks, stream } = services;
  const client = await connect(stream, { token: await services.token() });
  await connect(stream, { token: 'none' }).catch(() => {});
  await post(`${ticker}/auth/token`, { api_key: 'none' });
  const gone = await connect(stream, { token: await services.token() });
  gone.socket.close(1000);
  await gone.closed;
  await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: [1, 2] } });
  await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  await post(`${tasks}/tasks`, { action: 'uppercase', data: { text: 'too much'.repeat(200) } });
  for (let last = 0; last !== 1; ) last = (await request(`${tasks}/dead-letters`)).body.count;
  for (let last = 0; last !== 1; ) last = (await request(`${tasks}/tasks`)).body.count;
  for (let tick = 0; tick < 2; tick++) await client.nextOf('ticker');
  return services;
}
