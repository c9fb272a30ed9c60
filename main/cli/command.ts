/** An invalid command line. The usage is printed with the message. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** Returns the folder of the databases, for programs that do not load the whole configuration. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

/** Returns the PostgreSQL URL, or undefined if rows and keys are in SQLite files. */
export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/** Runs a command-line program. An error prints one line, with the usage if it is a {@link UsageError}, and sets exit code 1. */
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
