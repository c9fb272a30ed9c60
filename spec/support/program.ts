import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { loadConfig } from '../../main/config.ts';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { holdToContract, noteAnswer, serviceAt } from './contract-watch.ts';
import type { LogLine } from './log.ts';
import { sharedSettings } from './servers.ts';
import { Condition, eventually, until } from './until.ts';

export const projectFolder = fileURLToPath(new URL('../..', import.meta.url));

export type Program = ReturnType<typeof watch>;

export interface ProgramOptions {
  env?: Record<string, string>;
  node?: string;
  nodeOptions?: string[];
  /** Command prefix, such as `nice`, that replaces itself with the program. */
  within?: string[];
  /** Whether the process leads a process group of its own, which a signal to its negative id reaches. */
  detached?: boolean;
  args?: string[];
  cwd?: string;
}

export function limitedTo(openFiles: number): Required<Pick<ProgramOptions, 'within'>> {
  return { within: ['sh', '-c', 'ulimit -n "$0"; exec "$@"', `${openFiles}`] };
}

/** Starts `node dist/main` on free ports and in its own data folder, and returns its settings as `env`. Waits for no listener. */
export async function startProgram(options: ProgramOptions = {}) {
  const { env: own, node = process.execPath, nodeOptions = [], within = [], cwd = projectFolder, detached } = options;
  const [command = node, ...args] = [...within, node, ...nodeOptions, 'dist/main', ...(options.args ?? [])];
  const settings = { ...(await freshSettings()), ...own };
  const env = { ...process.env, ...settings };
  const child = spawn(command, args, { cwd, env, detached, stdio: ['ignore', 'pipe', 'pipe'] });
  return { ...watch(child, env), env: settings };
}

export const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

/** Settings that avoid conflicts between processes. If `SPEC_ENGINE` is set, a node gets a schema of its own. */
export async function freshSettings(): Promise<{ DATA_DIR: string; [name: string]: string }> {
  return {
    ...(process.env.SPEC_ENGINE === undefined ? {} : await sharedSettings()),
    ...{ HOST: '127.0.0.1', TICKER_PORT: '0', TASKS_PORT: '0', ADMIN_PORT: '0' },
    DATA_DIR: await temporaryFolder(),
  };
}

/** Collects the output of a child process that logs JSON lines. The child is killed after the test. */
export function watch(child: ChildProcess, { TICKER_SYMBOLS }: NodeJS.ProcessEnv = {}) {
  const lines: LogLine[] = [];
  const held: { forget(): void }[] = [];
  let output = '';
  let errors = '';
  let rest = '';
  const written = new Condition();
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    const whole = (rest + text).split('\n');
    rest = whole.pop() ?? '';
    for (const line of whole) {
      if (!line.startsWith('{')) continue;
      const logged: LogLine = JSON.parse(line);
      lines.push(logged);
      const { msg, port, service } = logged;
      if (msg !== 'listening') continue;
      const { symbols } = loadConfig({ TICKER_SYMBOLS }).ticker;
      held.push(holdToContract(Number(port), String(service), symbols));
    }
    written.changed();
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  let ended = false;
  const exited = once(child, 'close').then(([code, signal]): { code: number | null; signal: NodeJS.Signals | null } => {
    ended = true;
    for (const port of held) port.forget();
    written.changed();
    return { code, signal };
  });
  afterTest(async () => {
    child.kill('SIGKILL');
    await exited;
  });

  /** Returns the first log line that fits, now or later. Rejects if the process ends without one. */
  const logged = (fits: (line: LogLine) => boolean): Promise<LogLine> =>
    written.found(() => {
      const found = lines.find(fits);
      if (found !== undefined || !ended) return found;
      throw new Error(`the program ended without that log line; it wrote:\n${output}${errors}`);
    });
  const end = (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal);
    return exited;
  };
  return { child, lines, logged, exited, end, output: () => output, errors: () => errors };
}

export type RunningServices = Awaited<ReturnType<typeof startServices>>;

/** Starts a real process and waits until all of its listeners listen. */
export async function startServices(options: ProgramOptions = {}) {
  const program = await startProgram(options);
  const url = async (service: string) =>
    `http://127.0.0.1:${(await program.logged((line) => line.service === service)).port}`;
  const [ticker, tasks, admin] = [await url('ticker'), await url('tasks'), await url('admin')];
  const apiKey = (await program.logged((line) => line.msg.startsWith('demo API key'))).api_key as string;
  return {
    ...program,
    ...{ ticker, tasks, admin },
    stream: `${ticker.replace('http', 'ws')}/ws/ticker`,
    apiKey,
    token: async (): Promise<string> => (await post(`${ticker}/auth/token`, { api_key: apiKey })).body.token,
  };
}

export interface HttpResponse {
  status: number;
  headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: specs assert on single properties.
  body: any;
}

export async function request(url: string, { method = 'GET', ...init }: RequestInit = {}): Promise<HttpResponse> {
  const service = serviceAt(url);
  const response = await fetch(url, { method, ...init, headers: { Connection: 'close', ...(init.headers as object) } });
  const text = await response.text();
  const { status, headers } = response;
  noteAnswer(service, { request: { method, path: new URL(url).pathname }, status, headers, body: text });
  const isJson = headers.get('content-type')?.startsWith('application/json');
  return { status, headers, body: isJson && text !== '' ? JSON.parse(text) : text };
}

export function post(url: string, value: unknown): Promise<HttpResponse> {
  return request(url, { method: 'POST', body: JSON.stringify(value) });
}

export function untilAnswer(url: string, fits: (answer: HttpResponse) => boolean, init?: RequestInit) {
  return eventually(() => request(url, init), fits);
}

export async function untilServed(url: string): Promise<void> {
  await until(async () => (await request(url).catch(() => undefined))?.status === 200);
}

export async function untilTask(tasks: string, id: string, status = 'completed'): Promise<HttpResponse['body']> {
  return (await untilAnswer(`${tasks}/tasks/${id}`, ({ body }) => body.status === status)).body;
}
