import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectFolder, type RunningServices } from './program.ts';

/** The text of a document below one of its `##` headings. */
export function section(file: string, heading: string): string {
  const [, below] = readFileSync(join(projectFolder, file), 'utf8').split(`\n## ${heading}\n`);
  if (below === undefined) throw new Error(`${file} has no heading ${heading}`);
  return below.split('\n## ')[0] ?? '';
}

/** The blocks of a language below a heading, as they would be pasted. */
export function examples(file: string, heading: string, language = 'sh'): string[] {
  const blocks = section(file, heading).matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, 'g'));
  return [...blocks].map(([, block]) => block as string);
}

/** An example with the ports and the folder of a test in the place of the usual ones. */
export function adapt(example: string | undefined, { ticker, tasks }: RunningServices, dataDir = 'data'): string {
  if (example === undefined) throw new Error('the document has no such example');
  return example
    .replaceAll('localhost:8081', new URL(ticker).host)
    .replaceAll('localhost:8080', new URL(tasks).host)
    .replaceAll('data/auth.db', join(dataDir, 'auth.db'));
}

/**
 * Pastes an example into a shell, which ends with its first command that fails.
 *
 * @param env what earlier examples have set
 */
export function paste(example: string, env: Record<string, string> = {}): ChildProcessWithoutNullStreams {
  return spawn('bash', ['-c', `set -e\n${example}`], { cwd: projectFolder, env: { ...process.env, ...env } });
}
