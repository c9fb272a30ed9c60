import Type from 'typebox';
import { pageHeaders } from '../http/static-files.ts';
import { mapValues } from './map-values.ts';
import { type PathItem, pathItem } from './path-item.ts';
import { allErrors, constant, errors, type OpenApiResponse, onlyAt, optional } from './responses.ts';
import { servers } from './servers.ts';

const TAG = 'clients';

const headers = {
  ...mapValues(pageHeaders, constant),
  // The CORS middleware adds `Origin` to `Vary`.
  Vary: { required: true, schema: { type: 'string', pattern: '^(Origin, )?Accept-Encoding$' } },
  'Last-Modified': { required: true, schema: { type: 'string' } },
};

const text = { schema: Type.String() };
const image = { schema: Type.String({ contentMediaType: 'image/png' }) };

const page: OpenApiResponse = {
  description: 'The page. The page of the admin listener has no `Vary` and no `Last-Modified`.',
  headers: { ...headers, Vary: optional(headers.Vary), 'Last-Modified': optional(headers['Last-Modified']) },
  content: { 'text/html': text },
};

const file: OpenApiResponse = {
  description: 'The file, or the page of service A.',
  headers,
  content: {
    'text/html': text,
    'text/css': text,
    'text/javascript': text,
    'text/plain': text,
    'image/svg+xml': text,
    'image/png': image,
  },
};

const unchanged: OpenApiResponse = { description: 'Not modified.', headers };

const unknown = {
  ...onlyAt(['tasks', 'admin'], errors(['notFound'])),
  ...onlyAt(['tasks'], errors(['authenticationRequired'])),
};
const refused = errors(['crossSiteRequest']);

/** OpenAPI paths of the browser clients. `/{path}` stands for all requests that match no other path. */
export const browserClientPaths: Readonly<Record<string, PathItem>> = {
  '/': pathItem(TAG, [servers.ticker, servers.tasks, servers.admin], {
    get: {
      operationId: 'getPage',
      summary: 'The browser client of the service, or the links of the admin listener',
      responses: { 200: page, ...onlyAt(['ticker', 'tasks'], { 304: unchanged }) },
    },
    others: onlyAt(['tasks'], refused),
  }),
  '/{path}': pathItem(TAG, [servers.ticker, servers.tasks, servers.admin], {
    get: {
      operationId: 'getFile',
      summary: 'A file of the browser client',
      description:
        'Any other path, however deep. Paths are case-sensitive, and a trailing slash makes a different path. If there is no such file, service A answers with its page, and the other listeners with 404. Service B answers with 401 instead if `TASKS_REQUIRE_TOKEN=true` and the token is missing or invalid.',
      parameters: [{ name: 'path', in: 'path', required: true, schema: Type.String() }],
      responses: {
        ...onlyAt(['ticker', 'tasks'], { 200: file, 304: unchanged }),
        ...unknown,
        ...onlyAt(['admin'], refused),
      },
      errors: ['tokenStoreUnavailable'],
    },
    others: {
      ...allErrors(['tokenStoreUnavailable']),
      ...unknown,
      ...onlyAt(['tasks', 'admin'], refused),
    },
  }),
};
