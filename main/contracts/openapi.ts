import project from '../../package.json' with { type: 'json' };
import { adminPaths, adminSchemas } from './admin-paths.ts';
import { browserClientPaths } from './browser-client-paths.ts';
import { deadLetterPaths } from './dead-letter-paths.ts';
import { deadLetterSchemas } from './dead-letter-schemas.ts';
import type { PathItem } from './path-item.ts';
import { queueSchemas } from './queue-schemas.ts';
import { apiHeaderComponents, errorComponents } from './responses.ts';
import { servers } from './servers.ts';
import { taskListSchemas } from './task-list-schemas.ts';
import { taskSchemas } from './task-schemas.ts';
import { tasksPaths } from './tasks-paths.ts';
import { securitySchemes, tickerPaths, tickerSchemas } from './ticker-paths.ts';

export const openApi = {
  openapi: '3.1.1',
  info: {
    title: 'Ticker and task queue',
    version: project.version,
    summary: project.description,
    description: [
      'Every error is `{"error": "<text>"}`. Times are Unix seconds, or Unix milliseconds if they are named `at` or',
      '`…_ms`. The content type of a request is ignored.',
      'The document uses three extensions: `x-other-methods` lists the responses to methods that a path does not support,',
      '`x-servers` the servers (`ticker`, `tasks`, `admin`) that send a response, and `x-events` the data schemas of',
      'server-sent events.',
    ].join('\n'),
    license: { name: project.license, identifier: project.license },
  },
  servers: Object.values(servers),
  tags: [
    { name: 'ticker', description: 'API keys, tokens and the price stream' },
    { name: 'tasks', description: 'The queue, its results and its dead letters' },
    { name: 'clients', description: 'The browser clients' },
    { name: 'admin', description: 'Health, metrics and API documents, for operators' },
  ],
  paths: { ...tickerPaths, ...tasksPaths, ...deadLetterPaths, ...adminPaths, ...browserClientPaths } as Readonly<
    Record<string, PathItem>
  >,
  components: {
    schemas: {
      ...tickerSchemas,
      ...taskSchemas,
      ...taskListSchemas,
      ...queueSchemas,
      ...deadLetterSchemas,
      ...adminSchemas,
    },
    headers: apiHeaderComponents,
    responses: errorComponents,
    securitySchemes,
  },
};
