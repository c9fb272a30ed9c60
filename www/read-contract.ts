import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import project from '../package.json' with { type: 'json' };

interface Operation {
  operationId: string;
  summary: string;
  responses: Record<string, { content?: object }>;
}

interface Contract {
  info: { version: string };
  paths?: Record<string, { get?: Operation; head?: Operation }>;
}

/** Reads an API document from its YAML file. Adds the project's version, and a `HEAD` operation for each `GET`. */
export function readContract(name: 'openapi' | 'asyncapi'): Contract {
  const text = readFileSync(new URL(`contracts/${name}.yaml`, import.meta.url), 'utf8');
  const contract: Contract = parse(text, { merge: true, maxAliasCount: -1 });
  contract.info.version = project.version;
  const { paths = {} } = contract;
  for (const [path, { get, ...others }] of Object.entries(paths)) {
    // A WebSocket handshake has no `HEAD`.
    if (get !== undefined && !('101' in get.responses)) paths[path] = { get, head: headOf(get), ...others };
  }
  return contract;
}

function headOf(get: Operation): Operation {
  const responses = Object.entries(get.responses).map(([status, { content: _, ...head }]) => [status, head]);
  return {
    ...get,
    operationId: `${get.operationId}Head`,
    summary: `The headers of \`GET\`: ${get.summary}`,
    responses: Object.fromEntries(responses),
  };
}
