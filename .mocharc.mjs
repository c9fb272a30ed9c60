import { join } from 'node:path';

// Threads and programs that load TypeScript start in half the CPU time, because types are already stripped.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/node-compile');

/** Options of `mocha`: all specs, or the files, folders and patterns named on the command line. */
const named = process.argv.slice(2).some((argument) => /^(\.\/)?spec\//.test(argument));

export default {
  // The files that take longest start first.
  spec: named
    ? []
    : [
        'spec/{browser,e2e,faults,nodes,www}/**/*.spec.ts',
        'spec/!(bench|browser|e2e|faults|nodes|www)/**/*.spec.ts',
        'spec/*.spec.ts',
      ],
  extension: ['.spec.ts'],
  recursive: true,
  parallel: true,
  jobs: 4,
  require: ['spec/support/cleanup.ts'],
  reporter: './spec/support/reporter.ts',
  timeout: 180_000,
  slow: 5_000,
  forbidOnly: true,
};
