import { statSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { oneLine, readThrown } from './thrown.ts';

/** Message of Node.js for a module with `import` or `export` in a package of CommonJS modules. */
const ES_SYNTAX = /^Cannot use import statement outside a module$|^Unexpected token 'export'$/;
const ES_REMEDY = 'set "type": "module" in package.json, or end the file name in .mts or .mjs';

/**
 * Returns the default export of a user's module. `name` is a path or package name.
 *
 * @throws {Error} with a one-line reason, whatever the module throws
 */
export async function importUserModule(name: string): Promise<unknown> {
  try {
    const { default: exported } = await importFromWorkingDirectory(name);
    return exported;
  } catch (error) {
    const reason = oneLine(readThrown(error).reason);
    throw new Error(ES_SYNTAX.test(reason) ? `${reason}: ${ES_REMEDY}` : reason, { cause: error });
  }
}

async function importFromWorkingDirectory(name: string): Promise<{ default?: unknown }> {
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
