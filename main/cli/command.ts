/** Error in a command's arguments. The usage text is printed after its message. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** Returns the folder of the SQLite files (`DATA_DIR`), for programs that do not load the other settings. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

/** Returns the PostgreSQL URL (`DATABASE_URL`), or undefined if result rows and API keys are in SQLite files. */
export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/** Calls `work` with the arguments. If this fails, prints one line (followed by the usage text for a usage error) and sets exit code 1. */
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
    // `parseArgs` throws errors with its own codes.
    const isUsageError = error instanceof UsageError || code?.startsWith('ERR_PARSE_ARGS_');
    process.stderr.write(isUsageError ? `${line}\n\n${usage}` : `${line}\n`);
    process.exitCode = 1;
  }
}
