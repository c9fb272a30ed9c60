import { statSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { oneLine, readThrown } from './thrown.ts';

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
    throw new Error(oneLine(readThrown(error).reason), { cause: error });
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
