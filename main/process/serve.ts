import { setTimeout } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { type Config, ConfigError, loadConfig } from '../config.ts';
import type { Listener } from '../http/listener.ts';
import { isLoopbackAddress } from '../http/origins.ts';
import { createLog } from '../log/log.ts';
import { whenNpxEnds } from './runtime.ts';
import { type Services, startServices } from './start-services.ts';

const ExitCode = {
  stopped: 0,
  /** Startup failed, an exception was not caught, or a second signal forced the exit. */
  failed: 1,
  /** The process stopped and lost accepted tasks. Node.js and shells do not use this exit code. */
  tasksLost: 20,
} as const;

/** Milliseconds after the first signal during which other signals are ignored, because one Ctrl-C can send several. */
const SAME_SIGNAL_MS = 1000;

/**
 * Runs the ticker and the task service until SIGTERM, SIGINT or SIGHUP, then stops both and exits the process.
 *
 * @param watch whether to reload the handlers module when it changes
 */
export async function serve({ watch = false } = {}): Promise<void> {
  const config = readConfig();
  const output = await createLog(config.log);
  const { log } = output;
  // Without a listener, a failed write to a closed terminal would end the process.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

  let unsaved = () => 0;
  const end = async (code: number, lost = unsaved()): Promise<never> => {
    await output.end();
    process.exit(lost > 0 ? ExitCode.tasksLost : code);
  };
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception: the process ends');
    void end(ExitCode.failed);
  });

  const stopped = Promise.withResolvers<NodeJS.Signals | 'disconnect'>();
  let services: Services | undefined;
  listenForSignals(
    (signal) => stopped.resolve(signal),
    (signal) => {
      log.warn({ signal, unfinished: unsaved() }, 'stopped by force');
      void end(ExitCode.failed);
    },
  );
  // The IPC channel to the parent process disconnects when the parent process ends.
  process.once('disconnect', () => stopped.resolve('disconnect'));
  whenNpxEnds(() => stopped.resolve('disconnect'));

  // After a signal during startup, the startup may continue for at most the shutdown timeout.
  const startTimeout = stopped.promise.then(() => setTimeout(config.shutdownTimeoutMs, undefined));
  try {
    const start = startServices({ ...config, watch }, output, (ofTasks) => {
      unsaved = ofTasks;
    });
    services = await Promise.race([start, startTimeout]);
  } catch (error) {
    log.fatal((error as Error).message);
    return end(ExitCode.failed, 0);
  }
  if (services === undefined) {
    log.warn({ unfinished: unsaved() }, 'stopped during the start');
    return end(ExitCode.stopped);
  }
  output.print(banner(services.listeners, services.demoApiKey));
  log.info({ signal: await stopped.promise }, 'stopping');
  const { unfinished, kept } = await services.stop();
  const lost = kept ? 0 : unfinished;
  if (lost > 0) log.warn({ unfinished }, 'stopped: accepted tasks are lost');
  else log.info({ unfinished }, 'stopped');
  await end(ExitCode.stopped, lost);
}

function readConfig(): Config {
  try {
    return loadConfig(process.env, isatty(1));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(ExitCode.failed);
  }
}

/** Calls `onFirst` for the first signal and `onForce` for later ones, except SIGHUP, which terminals may send twice. */
function listenForSignals(onFirst: (signal: NodeJS.Signals) => void, onForce: (signal: NodeJS.Signals) => void): void {
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = Date.now();
      onFirst(signal);
    } else if (signal !== 'SIGHUP' && Date.now() - firstAt >= SAME_SIGNAL_MS) {
      onForce(signal);
    }
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
}

type Address = Pick<Listener, 'host' | 'port'>;

/** Returns the text that a terminal shows after startup: the URLs, the demo user's API key, and how to stop. */
export function banner(
  { ticker, tasks, admin }: Partial<Record<'ticker' | 'tasks' | 'admin', Address | undefined>>,
  apiKey: string,
): string {
  const lines = [
    ...(ticker === undefined ? [] : [`Prices      ${urlOf(ticker)}   API key ${apiKey}`]),
    ...(tasks === undefined ? [] : [`Tasks       ${urlOf(tasks)}`]),
    ...(admin === undefined ? [] : [`Operation   ${urlOf(admin)}`]),
    'Ctrl-C stops both services.',
  ];
  return `\n${lines.map((line) => `  ${line}\n`).join('')}\n`;
}

const WILDCARDS = ['0.0.0.0', '::'];

function urlOf({ host, port }: Address): string {
  const isHere = WILDCARDS.includes(host) || isLoopbackAddress(host);
  return `http://${isHere ? 'localhost' : host.includes(':') ? `[${host}]` : host}:${port}`;
}
