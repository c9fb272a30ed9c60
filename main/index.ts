#!/usr/bin/env node
/** Program entry point. Uses only syntax that Node 12 can parse, so that an old Node.js prints the required version. */

const USAGE = `ticker-and-tasks                  runs both services; their settings are environment variables
ticker-and-tasks --watch          does the same, and loads the module of TASK_HANDLERS again when it changes
ticker-and-tasks keys ...         lists, creates and revokes API keys
ticker-and-tasks backup ...       copies the databases
ticker-and-tasks migrate          creates or updates the databases
ticker-and-tasks init ...         writes a handlers module to begin with, with its test
ticker-and-tasks handlers ...     checks a handlers module, or runs one of its handlers
ticker-and-tasks healthcheck ...  requests a health check of the running services
`;

/** Programs by name. Importing a program's module runs the program. */
const programs: Readonly<Record<string, () => Promise<unknown>>> = {
  keys: () => import('./cli/keys.ts'),
  backup: () => import('./cli/backup.ts'),
  migrate: () => import('./cli/migrate.ts'),
  init: () => import('./cli/init.ts'),
  handlers: () => import('./cli/handlers.ts'),
  healthcheck: () => import('./cli/healthcheck.ts'),
};

if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else {
  void main();
}

/** Runs the services, or the program that the first argument names, with a Node.js that is new enough. */
async function main(): Promise<void> {
  // Without a listener, Node.js starts its inspector on SIGUSR1.
  process.on('SIGUSR1', () => {});
  const { runWithInstalledNode, runtimeIsNewEnough } = await import('./process/runtime.ts');
  const [name] = process.argv.slice(2);
  if (!runtimeIsNewEnough()) {
    await runWithInstalledNode();
  } else if (name === undefined || (name === '--watch' && process.argv.length === 3)) {
    const { serve } = await import('./process/serve.ts');
    await serve({ watch: name !== undefined });
  } else {
    await runProgram(name);
  }
}

/** Runs the program `name` with the remaining arguments. If `name` is unknown, prints an error and the usage. */
async function runProgram(name: string): Promise<void> {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    const { runCommand, UsageError } = await import('./cli/command.ts');
    return runCommand(USAGE, () => {
      throw new UsageError(`unknown command ${JSON.stringify(name)}`);
    });
  }
  process.argv.splice(2, 1);
  await program();
}
