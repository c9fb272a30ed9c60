/** Error in the arguments of a command. The usage is printed after its message. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** Returns the folder of the SQLite files, `DATA_DIR`. For programs that do not load the other settings. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

/** Returns the PostgreSQL URL, `DATABASE_URL`, or undefined if result rows and API keys are in SQLite files. */
export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/** Calls `work` with the arguments. If it throws, prints one line (and the usage for wrong arguments) and sets exit code 1. */
export async function runCommand(usage: string, work: (args: string[]) => void | Promise<void>): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(usage);
    return;
  }
  try {
    await work(args);
  } catch (error) {
    const line = (error as Error).message.replace(/\p{Cc}+/gu, ' ');
    process.stderr.write(isUsageError(error) ? `${line}\n\n${usage}` : `${line}\n`);
    process.exitCode = 1;
  }
}

/** Whether an error is a {@link UsageError} or comes from `parseArgs`. */
function isUsageError(error: unknown): boolean {
  return error instanceof UsageError || /^ERR_PARSE_ARGS_/.test((error as NodeJS.ErrnoException).code ?? '');
}
