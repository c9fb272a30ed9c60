import { createConfig, lintFromString } from '@redocly/openapi-core';

/** Runs a standard linter on a document. Returns one line per problem. */
export async function lint(name: string, document: object): Promise<string[]> {
  const config = await createConfig({
    extends: ['recommended'],
    // The stream responds with 101.
    rules: { 'operation-2xx-response': 'off' },
  });
  const problems = await lintFromString({ source: JSON.stringify(document), absoluteRef: `/${name}.json`, config });
  return problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`);
}
