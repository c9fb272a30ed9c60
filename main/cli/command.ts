/** Invalid command line arguments. The usage text is printed after the message. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** Returns the folder of the SQLite files (`DATA_DIR`), without validating other settings. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

/** Returns the PostgreSQL URL (`DATABASE_URL`), or undefined if SQLite is used. */
export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/** Calls `work` with the command line arguments. Prints a thrown error and sets exit code 1. */
export async function runCommand(usage: string, work: (args: string[]) => void | Promise<void>): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(usage);
    return;
  }
  try {
    await work(args);
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const line = message.replace(/\p{Cc}+/gu, ' ');
    const isUsageError = error instanceof UsageError || code?.startsWith('ERR_PARSE_ARGS_');
    process.stderr.write(isUsageError ? `${line}\n\n${usage}` : `${line}\n`);
    process.exitCode = 1;
  }
}
