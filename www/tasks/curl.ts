import { authorization, type Submission } from './tasks-api.ts';

/** Returns a curl command that queues a task. If a token is required, the command reads the shell variable `TOKEN`. */
export function curlCommand(origin: string, submission: Submission): string {
  const header = 'Authorization' in authorization() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return `curl ${origin}/tasks${header} -d ${quote(JSON.stringify(submission))}`;
}

/** Quotes `text` as a single POSIX shell word. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
