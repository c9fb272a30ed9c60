/**
 * Side effect: modules of the user can import this package by its name from any folder, and get the version that runs. A
 * module that is mounted into a container has no `node_modules` with the package.
 */
import { registerHooks } from 'node:module';

const OWN = /^ticker-and-tasks(?:\/|$)/;

registerHooks({
  resolve(specifier, context, next) {
    if (!OWN.test(specifier) || context.parentURL === import.meta.url) return next(specifier, context);
    // A package can import itself by its name. This calls the hook again.
    return { url: import.meta.resolve(specifier), shortCircuit: true };
  },
});
