import { authorization, type Submission } from './tasks-api.ts';

/** Returns the curl command that queues the same task, with the shell variable `TOKEN` in place of a token. */
export function curlCommand(origin: string, submission: Submission): string {
  const header = 'Authorization' in authorization() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return `curl ${origin}/tasks${header} -d ${quote(JSON.stringify(submission))}`;
}

/** Quotes a text as one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
