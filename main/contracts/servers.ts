import { defaults } from '../config.ts';
import type { Server } from './paths.ts';

/** Listeners of the process at their default ports, as OpenAPI's server objects. */
export const servers = {
  ticker: server(defaults.tickerPort, 'service A, the ticker'),
  tasks: server(defaults.tasksPort, 'service B, the task queue'),
  admin: server(defaults.adminPort, 'the admin listener'),
} satisfies Record<string, Server>;

export type ServiceName = keyof typeof servers;

function server(port: number, description: string) {
  return {
    url: `http://{host}:${port}`,
    description,
    variables: { host: { default: 'localhost', description: 'host of the process' } },
  };
}
