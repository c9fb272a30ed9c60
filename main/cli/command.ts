import { isDependency } from '../process/runtime.ts';

/** Invalid command line arguments. The usage text is printed after the message. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** Replaces the npm scripts of a clone in a text by the same commands of the package. */
export function withPackageCommands(text: string): string {
  return text
    .replaceAll('npm start', 'npx ticker-and-tasks')
    .replace(/npm run (backup|handlers|keys|migrate)( --)?/g, 'npx ticker-and-tasks $1');
}

const asInstalled = isDependency ? withPackageCommands : (text: string) => text;

/** Returns the folder of the SQLite files (`DATA_DIR`), without validating other settings. */
export function dataFolder(): string {
  return process.env.DATA_DIR || 'data';
}

export function databaseUrl(): string | undefined {
  return process.env.DATABASE_URL || undefined;
}

/** Calls `work` with the command line arguments. Prints a thrown error and sets exit code 1. */
export async function runCommand(usage: string, work: (args: string[]) => void | Promise<void>): Promise<void> {
  const args = process.argv.slice(2);
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(asInstalled(usage));
    return;
  }
  try {
    await work(args);
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    const isUsageError = error instanceof UsageError || code?.startsWith('ERR_PARSE_ARGS_');
    process.stderr.write(asInstalled(`${message.replace(/\p{Cc}+/gu, ' ')}\n${isUsageError ? `\n${usage}` : ''}`));
    process.exitCode = 1;
  }
}
