import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { tie } from './child.ts';

/** The project's folder. */
export const project = fileURLToPath(new URL('../..', import.meta.url));

export interface ServerOptions {
  /** A file of `contenders/`, or `dist/main`. */
  file: string;
  args?: string[];
  env?: Record<string, string>;
}

/** A contender in a process of its own, and what the operating system says it costs. */
export class Server {
  /** What it wrote, a JSON value a line. */
  readonly #lines: Record<string, unknown>[] = [];
  readonly #child: ChildProcess;
  /** Ends it. */
  readonly stop: () => Promise<void>;
  #wake = Promise.withResolvers<void>();
  #ended = false;

  private constructor(child: ChildProcess, folder: string) {
    this.#child = child;
    this.stop = tie(child, folder);
    if (child.stdout === null) throw new Error('the contender has no output');
    createInterface(child.stdout).on('line', (line) => {
      this.#lines.push(JSON.parse(line));
      this.#wake.resolve();
      this.#wake = Promise.withResolvers();
    });
    child.once('exit', () => {
      this.#ended = true;
      this.#wake.resolve();
    });
  }

  /** Starts it in a folder of its own (`DATA_DIR`), on free ports. */
  static async start({ file, args = [], env = {} }: ServerOptions): Promise<Server> {
    const folder = await mkdtemp(join(tmpdir(), 'bench-'));
    const ports = { TICKER_PORT: '0', TASKS_PORT: '0', ADMIN_PORT: '0' };
    const settings = { HOST: '127.0.0.1', ...ports, DATA_DIR: folder, LOG_LEVEL: 'info' };
    const child = spawn(process.execPath, [join(project, file), ...args], {
      cwd: project,
      env: { ...process.env, ...settings, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    return new Server(child, folder);
  }

  /** The first line that fits, written already or to come. */
  async line(fits: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    for (;;) {
      const found = this.#lines.find(fits);
      if (found !== undefined) return found;
      if (this.#ended) throw new Error('the contender ended early');
      await this.#wake.promise;
    }
  }

  /** The newest number that it told under a name; 0 before the first. */
  latest(name: string): number {
    return Number(this.#lines.findLast((line) => line[name] !== undefined)?.[name] ?? 0);
  }

  /** Tells it to begin, where it waits for that. */
  go(): void {
    this.#child.stdin?.write('go\n');
  }

  /** Asks for its next line with this name. */
  async ask(name: string): Promise<Record<string, unknown>> {
    const told = this.#lines.length;
    this.go();
    return this.line((line) => line[name] !== undefined && this.#lines.indexOf(line) >= told);
  }

  /** Ends it as a crash does, its folder included. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Seconds of CPU that all its threads have used; to the nanosecond, where `stat` counts hundredths. */
  cpu(): number {
    const threads = `/proc/${this.#child.pid}/task`;
    const used = (thread: string) => Number(readFileSync(`${threads}/${thread}/schedstat`, 'utf8').split(' ')[0]);
    return readdirSync(threads).reduce((sum, thread) => sum + used(thread), 0) / 1e9;
  }

  /** Bytes of memory that are resident. */
  memory(): number {
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
  }
}

/** The product with both services, and where they listen. */
export interface Product {
  server: Server;
  ticker: { host: string; port: number };
  tasks: { host: string; port: number };
  /** Exchanges the demo user's key for a new token. */
  token(): Promise<string>;
}

export async function startProduct(env: Record<string, string> = {}): Promise<Product> {
  const server = await Server.start({ file: 'dist/main', env });
  const { api_key } = await server.line(({ msg }) => String(msg).startsWith('demo API key'));
  const address = async (name: string) => {
    const { port } = await server.line(({ service }) => service === name);
    return { host: '127.0.0.1', port: port as number };
  };
  const ticker = await address('ticker');
  return {
    server,
    ticker,
    tasks: await address('tasks'),
    async token() {
      const url = `http://${ticker.host}:${ticker.port}/auth/token`;
      const response = await fetch(url, { method: 'POST', body: JSON.stringify({ api_key }) });
      return ((await response.json()) as { token: string }).token;
    },
  };
}

/** A peer of `contenders/`, which tells its port when it listens. */
export async function startPeer(
  name: string,
  args: string[] = [],
): Promise<{ server: Server; address: { host: string; port: number } }> {
  const server = await Server.start({ file: `spec/bench/contenders/${name}.ts`, args });
  const { port } = await server.line((line) => line.port !== undefined);
  return { server, address: { host: '127.0.0.1', port: port as number } };
}
