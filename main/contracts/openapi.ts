import project from '../../package.json' with { type: 'json' };
import { adminPaths, adminSchemas } from './admin-paths.ts';
import { dataHeaderComponents, errorComponents } from './answers.ts';
import { clientPaths } from './client-paths.ts';
import type { PathItem } from './paths.ts';
import { servers } from './servers.ts';
import { taskSchemas } from './task-schemas.ts';
import { tasksPaths } from './tasks-paths.ts';
import { securitySchemes, tickerPaths, tickerSchemas } from './ticker-paths.ts';

const paths: Readonly<Record<string, PathItem>> = { ...tickerPaths, ...tasksPaths, ...adminPaths, ...clientPaths };

/** Every path, method, status, header and error text of both services and the admin listener: OpenAPI 3.1. */
export const openApi = {
  openapi: '3.1.1',
  info: {
    title: 'Ticker and task queue',
    version: project.version,
    summary: project.description,
    description: [
      'Every error is `{"error": "<text>"}`. All times are Unix seconds. The content type of a request is ignored.',
      'Three extensions say what the standard has no word for: `x-other-methods` how a path answers the methods that it',
      'does not have, `x-servers` which of its servers (`ticker`, `tasks`, `admin`) give an answer, `x-events` what the',
      'events of a stream hold.',
    ].join('\n'),
    license: { name: project.license, identifier: project.license },
  },
  servers: Object.values(servers),
  tags: [
    { name: 'ticker', description: 'API keys, tokens and the price stream' },
    { name: 'tasks', description: 'The queue, its results and its dead letters' },
    { name: 'clients', description: 'What a browser loads' },
    { name: 'admin', description: 'For whoever runs the process' },
  ],
  paths,
  components: {
    schemas: { ...tickerSchemas, ...taskSchemas, ...adminSchemas },
    headers: dataHeaderComponents,
    responses: errorComponents,
    securitySchemes,
  },
};
