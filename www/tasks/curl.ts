import { isSignedIn, type Submission } from './service.ts';

/** Returns a curl command that queues a task, with the shell variable `TOKEN` if the service requires a token. */
export function curlCommand(origin: string, submission: Submission): string {
  const header = isSignedIn() ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return `curl ${origin}/tasks${header} -d ${quote(JSON.stringify(submission))}`;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
