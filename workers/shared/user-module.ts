import { readFileSync, statSync } from 'node:fs';
import { registerHooks, stripTypeScriptTypes } from 'node:module';
import { relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { oneLine, readThrown } from './thrown.ts';

/** Message of Node.js for a module with `import` or `export` in a package of CommonJS modules. */
const ES_SYNTAX = /^Cannot use import statement outside a module$|^Unexpected token 'export'$/;
const ES_REMEDY = 'set "type": "module" in package.json, or end the file name in .mts or .mjs';

/** Files outside of `node_modules` that a module and its imports have loaded, by URL. */
export type ModuleSources = Map<string, LoadedSource>;

interface LoadedSource {
  format: string | null | undefined;
  /** Node.js reads files as bytes. */
  source: string | Uint8Array | undefined;
}

/**
 * Returns an export of a path or package.
 *
 * @param sources files that are loaded instead of the disk; gets the other files loaded
 * @throws {Error} with a one-line reason and its place, whatever the module throws
 */
export async function importUserModule(
  name: string,
  exportName = 'default',
  sources?: ModuleSources,
): Promise<unknown> {
  using _hooks = sources && keepSources(sources);
  try {
    return (await importFromWorkingDirectory(name))[exportName];
  } catch (error) {
    const reason = oneLine(readThrown(error).reason);
    const place = placeOf(error) ?? (error instanceof SyntaxError ? placeOfSyntaxError(sources) : undefined);
    if (ES_SYNTAX.test(reason)) throw new Error(`${reason}: ${ES_REMEDY}`, { cause: error });
    throw new Error(place === undefined ? reason : `${reason}, at ${oneLine(place)}`, { cause: error });
  }
}

function keepSources(sources: ModuleSources): Disposable {
  const hooks = registerHooks({
    load(url, context, next) {
      const kept = sources.get(url);
      if (kept !== undefined) return { ...kept, shortCircuit: true };
      const loaded = next(url, context);
      if (url.startsWith('file:') && !url.includes('/node_modules/'))
        sources.set(url, { format: loaded.format, source: loaded.source } as LoadedSource);
      return loaded;
    },
  });
  return { [Symbol.dispose]: () => hooks.deregister() };
}

async function importFromWorkingDirectory(name: string): Promise<Record<string, unknown>> {
  const path = resolve(name);
  const isPath = /^\.{0,2}\//.test(name) || statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  if (isPath) return import(pathToFileURL(path).href);
  // With this parent URL, Node resolves the package from the working directory, not from the program's folder.
  const parentURL = pathToFileURL(resolve('package.json')).href;
  const hooks = registerHooks({
    resolve: (specifier, context, next) => next(specifier, specifier === name ? { ...context, parentURL } : context),
  });
  try {
    return await import(name);
  } finally {
    hooks.deregister();
  }
}

const LONGEST_CODE = 100;
/** Folder of this program's own thread code, whose frames are no place of the user's. */
const OWN_FOLDER = new URL('../', import.meta.url).pathname;

/** Returns where the user's code has thrown, with the code there: `lib.ts:2:7: <code>`. Undefined if it is unknown. */
function placeOf(error: unknown): string | undefined {
  try {
    const lines = (error as Error).stack?.split('\n') ?? [];
    // Node.js puts the place of TypeScript that it cannot parse, and the code with a caret below, before the message.
    const [, source, sourceLine] = /^((?:file:\/\/)?\/.*):(\d+)$/.exec(lines[0] ?? '') ?? [];
    const caret = lines.find((text) => /^ *\^+$/.test(text))?.indexOf('^') ?? 0;
    const frame = lines
      .map((text) => /\bat (?:.* \()?((?:file:\/\/)?\/.*):(\d+):(\d+)\)?$/.exec(text))
      .find((match) => match && !match[1]?.includes(OWN_FOLDER));
    const [, found = '', line, column] = source === undefined ? (frame ?? []) : ['', source, sourceLine, caret + 1];
    const file = found.startsWith('file:') ? fileURLToPath(found) : found;
    const code = readFileSync(file, 'utf8').split('\n')[Number(line) - 1]?.trim().slice(0, LONGEST_CODE);
    const path = relative('', file);
    return `${path.startsWith('..') ? file : path}:${line}:${column}: ${code}`;
  } catch {
    return undefined;
  }
}

/** Finds the place of a syntax error in JavaScript, which Node.js does not tell, with the parser for TypeScript. */
function placeOfSyntaxError(sources: ModuleSources = new Map()): string | undefined {
  for (const [sourceUrl, { format, source }] of sources) {
    if (format !== 'module') continue;
    try {
      stripTypeScriptTypes(String(source), { sourceUrl });
    } catch (error) {
      return placeOf(error);
    }
  }
  return undefined;
}

/** Report of a one-shot thread. */
export interface OneShotReport {
  /** `failure` is a single line. */
  report: { result: unknown } | { failure: string };
  sources: ModuleSources;
}

/** Runs a one-shot thread's check of a user's module. Sends the result, or the reason of a failure, as the report. */
export function reportCheck(check: (sources: ModuleSources) => Promise<unknown>): void {
  const sources: ModuleSources = new Map();
  const send = (report: OneShotReport['report']) =>
    parentPort?.postMessage({ report, sources } satisfies OneShotReport);
  // Node emits `beforeExit` if the module awaits a promise that never settles, because nothing is left to run.
  process.once('beforeExit', () => send({ failure: 'it never finishes loading' }));
  // Not awaited, because Node prints a warning if a top-level `await` never settles.
  void check(sources).then(
    (result) => send({ result }),
    (error) => send({ failure: oneLine(readThrown(error).reason) }),
  );
}
