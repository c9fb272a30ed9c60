import type { Submission } from './tasks-api.ts';

/** The command that queues the same task from a POSIX shell. */
export function curlCommand(origin: string, submission: Submission): string {
  return `curl ${origin}/tasks -d ${quote(JSON.stringify(submission))}`;
}

/** One word for a POSIX shell, whatever it holds. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
