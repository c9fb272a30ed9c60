import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { freePort } from './free-port.ts';
import { runOn } from './migrated-folder.ts';
import { freshSettings, post, projectFolder, request, untilServed } from './program.ts';
import { until } from './until.ts';

export type RedirectedServices = Awaited<ReturnType<typeof startRedirected>>;

/** Starts `node dist/main` from a shell, redirected (such as `>/dev/full`) or in a terminal. Waits until it is ready. */
export async function startRedirected(options: { redirect?: string; terminal?: boolean; ownSession?: boolean }) {
  const folder = await temporaryFolder();
  const [pidFile, codeFile] = [join(folder, 'pid'), join(folder, 'code')];
  const ports = { ticker: await freePort(), tasks: await freePort(), admin: await freePort() };
  const own = { TICKER_PORT: `${ports.ticker}`, TASKS_PORT: `${ports.tasks}`, ADMIN_PORT: `${ports.admin}` };
  const settings = await freshSettings();
  const { DATA_DIR: dataDir = '' } = settings;
  // In a session of its own, the program gets no SIGHUP when the terminal is closed.
  const program = `${options.ownSession ? 'setsid ' : ''}${process.execPath} dist/main ${options.redirect ?? ''}`;
  // The shell outlives its terminal. Node resets ignored signals, so the program does not ignore SIGHUP.
  const command = `trap "" HUP; ${program} & echo $! > ${pidFile}; wait $!; echo $? > ${codeFile}`;
  const [name, ...args] = options.terminal
    ? // When the session leader, which is the outer shell, ends with its terminal, the kernel sends SIGHUP to the others.
      ['script', '--quiet', '--flush', '--command', `sh -c '${command}'; true`, '/dev/null']
    : ['sh', '-c', command];
  const parent = spawn(name as string, args, {
    cwd: projectFolder,
    env: { ...process.env, SHELL: '/bin/sh', ...settings, ...own },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const number = async (file: string) => {
    await until(() => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'));
    return Number(readFileSync(file, 'utf8'));
  };
  const pid = await number(pidFile);
  afterTest(() => {
    if (!existsSync(codeFile)) process.kill(pid, 'SIGKILL');
    parent.kill('SIGKILL');
  });
  const address = (service: keyof typeof ports) => `http://127.0.0.1:${ports[service]}`;
  await untilServed(`${address('admin')}/readyz`);
  return {
    /** The shell or `script`. */
    parent,
    end() {
      process.kill(pid, 'SIGTERM');
      return this.exited;
    },
    get exited() {
      return number(codeFile).then((code) => ({ code }));
    },
    ...{ ticker: address('ticker'), tasks: address('tasks'), admin: address('admin'), dataDir },
    stream: `ws://127.0.0.1:${ports.ticker}/ws/ticker`,
    async token(): Promise<string> {
      const [demo] = runOn(dataDir, "SELECT api_key FROM api_keys WHERE user_id = 'demo'", 'auth.db');
      return (await post(`${address('ticker')}/auth/token`, demo)).body.token;
    },
    async metric(metric: string) {
      const { body } = await request(`${address('admin')}/metrics`);
      return Number(new RegExp(`^${metric} (\\d+)$`, 'm').exec(body)?.[1]);
    },
  };
}
