import { readFileSync, statSync } from 'node:fs';
import { registerHooks, stripTypeScriptTypes } from 'node:module';
import { resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { framesOf, pathOf, shownPath } from './frames.ts';
import { oneLine, property, readThrown } from './thrown.ts';

const OWN_PACKAGE = /^ticker-and-tasks(?:\/|$)/;

// Modules of the user can import this package by its name from any folder, and get the version that runs. A module that is
// mounted into a container has no `node_modules` with the package.
registerHooks({
  resolve(specifier, context, next) {
    if (!OWN_PACKAGE.test(specifier) || context.parentURL === import.meta.url) return next(specifier, context);
    // A package can import itself by its name. This calls the hook again.
    return { url: import.meta.resolve(specifier), shortCircuit: true };
  },
});

/** Message of Node.js for a module with `import` or `export` in a package of CommonJS modules. */
const ES_SYNTAX = /^Cannot use import statement outside a module$|^Unexpected token 'export'$/;
const ES_REMEDY = 'set "type": "module" in package.json, or end the file name in .mts or .mjs';

/** Files outside of `node_modules` that a module and its imports have loaded, or have not found, by URL. */
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
    throw new Error(explain(error, sources), { cause: error });
  }
}

const MAX_CAUSES = 3;
/** End of the message of Node.js for a module that this file imports. */
const OWN_IMPORT = ` imported from ${fileURLToPath(import.meta.url)}`;

/** Returns the reason of an error with its place, and its causes, in one line. */
function explain(error: unknown, sources?: ModuleSources, causes = MAX_CAUSES): string {
  const reason = oneLine(readThrown(error).reason).replace(OWN_IMPORT, '');
  if (ES_SYNTAX.test(reason)) return `${reason}: ${ES_REMEDY}`;
  const place = placeOf(error) ?? (error instanceof SyntaxError ? placeOfSyntaxError(sources) : undefined);
  const placed = place === undefined ? reason : `${reason}, at ${oneLine(place)}`;
  const cause = causes > 0 ? property(error, 'cause') : undefined;
  return cause == null ? placed : `${placed}; caused by ${explain(cause, sources, causes - 1)}`;
}

function keepSources(sources: ModuleSources): Disposable {
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context);
      } catch (error) {
        const { url } = error as { url?: string };
        if (url?.startsWith('file:')) sources.set(url, { format: undefined, source: undefined });
        // Node.js does not tell where the import is.
        const { parentURL = '' } = context;
        const text = String(Buffer.from(sources.get(parentURL)?.source ?? ''));
        const position = Math.max(text.indexOf(`'${specifier}'`), text.indexOf(`"${specifier}"`));
        const lines = text.slice(0, Math.max(0, position)).split('\n');
        const at = `    at ${parentURL}:${lines.length}:${(lines.at(-1) ?? '').length + 1}`;
        if (position >= 0) (error as Error).stack = at;
        throw error;
      }
    },
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

/** Returns where the user's code has thrown, with the code there: `lib.ts:2:7: <code>`. Undefined if it is unknown. */
function placeOf(error: unknown): string | undefined {
  try {
    const { stack = '' } = error as Error;
    const lines = stack.split('\n');
    // Node.js puts the place of TypeScript that it cannot parse, and the code with a caret below, before the message.
    const [, source, sourceLine] = /^((?:file:\/\/)?\/.*):(\d+)$/.exec(lines[0] ?? '') ?? [];
    const column = (lines.find((text) => /^ *\^+$/.test(text))?.indexOf('^') ?? 0) + 1;
    const file = pathOf(source ?? '');
    const [first] =
      source === undefined ? framesOf(stack) : [{ file, place: `${shownPath(file)}:${sourceLine}:${column}` }];
    if (first === undefined) return undefined;
    const line = Number(first.place.split(':').at(-2));
    const code = readFileSync(first.file, 'utf8').split('\n')[line - 1]?.trim().slice(0, LONGEST_CODE);
    return `${first.place}: ${code}`;
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
