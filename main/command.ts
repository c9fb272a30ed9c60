/** What is wrong with a command line; the usage is shown with it. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** The folder of the databases, for programs that need no other setting. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

/** The address of PostgreSQL, where it keeps the rows and keys. */
export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/**
 * The frame of a program that is run by hand, not as a service: `--help` prints `usage`; an error is one line on standard
 * error, followed by the usage where the command line is at fault, and exit code 1.
 */
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

/** Ours, or one of `parseArgs`. */
function isUsageError(error: unknown): boolean {
  return error instanceof UsageError || /^ERR_PARSE_ARGS_/.test((error as NodeJS.ErrnoException).code ?? '');
}
