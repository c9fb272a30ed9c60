import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';
import { projectFolder, type RunningServices, watch } from './program.ts';

/** Returns the text below a `##` heading of a document. */
export function section(file: string, heading: string): string {
  const [, below] = readFileSync(join(projectFolder, file), 'utf8').split(`\n## ${heading}\n`);
  if (below === undefined) throw new Error(`${file} has no heading ${heading}`);
  return below.split('\n## ')[0] ?? '';
}

/** Returns the code blocks of a language below a heading. */
export function examples(file: string, heading: string, language = 'sh'): string[] {
  const blocks = section(file, heading).matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, 'g'));
  return [...blocks].map(([, block]) => block as string);
}

/** Replaces an example's ports with those of the test. */
export function adapt(example: string | undefined, { ticker, tasks }: RunningServices): string {
  if (example === undefined) throw new Error('the document has no such example');
  return example.replaceAll('localhost:8081', new URL(ticker).host).replaceAll('localhost:8080', new URL(tasks).host);
}

/** Runs an example in a shell, which exits at the first failing command. */
export function paste(example: string, env: Record<string, string> = {}): ChildProcessWithoutNullStreams {
  return spawn('bash', ['-c', `set -e\n${example}`], { cwd: projectFolder, env: { ...process.env, ...env } });
}

/** Runs an example to its end, which must be successful. Returns its output. */
export async function outputOf(example = '', env: Record<string, string> = {}): Promise<string> {
  const shell = watch(paste(example, env));
  const { code } = await shell.exited;
  if (code !== 0) throw new Error(`the example exited with ${code}: ${shell.output()}${shell.errors()}`);
  return shell.output();
}

/** Creates a folder with files, by path, in which the package of this project is installed. */
export async function projectWith(files: Record<string, string>): Promise<string> {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(projectFolder, join(folder, 'node_modules/ticker-and-tasks'));
  for (const name of ['@types', 'koa'])
    symlinkSync(join(projectFolder, 'node_modules', name), join(folder, 'node_modules', name));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}
