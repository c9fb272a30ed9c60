import { join } from 'node:path';

// Threads and programs that load TypeScript start in half the CPU time, because types are already stripped.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/node-compile');

/** Options of `mocha`: all specs, or the spec files named on the command line. */
const named = process.argv.slice(2).some((argument) => argument.endsWith('.ts'));

export default {
  // The files that take longest start first.
  spec: named
    ? []
    : [
        'spec/{browser,cluster,e2e,faults,soak,www}/**/*.spec.ts',
        'spec/!(bench|browser|cluster|e2e|faults|soak|www)/**/*.spec.ts',
        'spec/*.spec.ts',
      ],
  parallel: true,
  jobs: 4,
  require: ['spec/support/cleanup.ts'],
  timeout: 60_000,
  slow: 5_000,
  forbidOnly: true,
};
