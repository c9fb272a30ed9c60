import { defaults } from '../config.ts';

export const servers = {
  ticker: server(defaults.ticker.port, 'service A, the ticker'),
  tasks: server(defaults.tasks.port, 'service B, the task queue'),
  admin: server(defaults.admin.port, 'the admin listener'),
};

export type ServiceName = keyof typeof servers;
export type Server = ReturnType<typeof server>;

function server(port: number, description: string) {
  return {
    url: `http://{host}:${port}`,
    description,
    variables: { host: { default: 'localhost', description: 'host of the process' } },
  };
}
