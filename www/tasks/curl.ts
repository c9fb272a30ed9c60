import { authorization, type Submission } from './tasks-api.ts';

/** The command that queues the same task from a POSIX shell. It names the variable `TOKEN` in place of a token. */
export function curlCommand(origin: string, submission: Submission): string {
  const header = 'Authorization' in authorization() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return `curl ${origin}/tasks${header} -d ${quote(JSON.stringify(submission))}`;
}

/** One word for a POSIX shell, whatever it holds. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
