import { runCommand, UsageError } from './command.ts';

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
  keys: () => import('./keys.ts'),
  backup: () => import('./backup.ts'),
  migrate: () => import('./migrate.ts'),
  init: () => import('./init.ts'),
  handlers: () => import('./handlers.ts'),
  healthcheck: () => import('./healthcheck.ts'),
};

/** Runs the program `name` with the remaining arguments. If `name` is unknown, prints an error and the usage. */
export async function runProgram(name: string): Promise<void> {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    return runCommand(USAGE, () => {
      throw new UsageError(`unknown command ${JSON.stringify(name)}`);
    });
  }
  process.argv.splice(2, 1);
  await program();
}
