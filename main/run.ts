import { setTimeout } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { type Config, ConfigError, loadConfig } from './config.ts';
import { createLog, type LogOutput } from './log.ts';
import { type Services, startServices } from './services.ts';

/** Exit codes, as www/guide/running.md lists them. */
const ExitCode = {
  stopped: 0,
  /** The start failed, an exception was not caught, or a second signal forced the process to stop. */
  failed: 1,
  /** The process stopped and lost accepted tasks. Neither Node nor shells use this exit code. */
  tasksLost: 20,
} as const;

/** Milliseconds after the first signal in which further ones are ignored, because one Ctrl-C can send several to a process. */
const SAME_SIGNAL_MS = 1000;

/** Runs both services until SIGTERM, SIGINT or SIGHUP, then stops them gracefully and exits the process. */
export async function run(): Promise<void> {
  const config = readConfig();
  const output = await createLog({ level: config.logLevel, format: config.logFormat });
  const { log } = output;
  // Node writes the output of worker threads to these streams. Without an error listener, a closed terminal would end the process.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

  let unsaved = () => 0;
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'uncaught exception: the process ends');
    void end(output, unsaved() > 0 ? ExitCode.tasksLost : ExitCode.failed);
  });

  const stopped = Promise.withResolvers<NodeJS.Signals | 'disconnect'>();
  let services: Services | undefined;
  listenForSignals(
    (signal) => stopped.resolve(signal),
    (signal) => {
      const unfinished = unsaved();
      log.warn({ signal, unfinished }, 'stopped by force');
      void end(output, unfinished > 0 ? ExitCode.tasksLost : ExitCode.failed);
    },
  );
  // Emitted when the old Node that started this process (reexec.ts) has exited.
  process.once('disconnect', () => stopped.resolve('disconnect'));

  // A signal during the start takes effect once the services have started, or after the shutdown timeout if that is earlier.
  const startTimeout = stopped.promise.then(() => setTimeout(config.shutdownTimeoutMs, undefined));
  try {
    const start = startServices(config, output, (ofTasks) => {
      unsaved = ofTasks;
    });
    services = await Promise.race([start, startTimeout]);
  } catch (error) {
    log.fatal((error as Error).message);
    return end(output, ExitCode.failed);
  }
  if (services === undefined) {
    const unfinished = unsaved();
    log.warn({ unfinished }, 'stopped during the start');
    return end(output, unfinished > 0 ? ExitCode.tasksLost : ExitCode.stopped);
  }
  log.info({ signal: await stopped.promise }, 'stopping');
  const { unfinished, kept } = await services.stop();
  const isLoss = unfinished > 0 && !kept;
  if (isLoss) log.warn({ unfinished }, 'stopped: accepted tasks are lost');
  else log.info({ unfinished }, 'stopped');
  await end(output, isLoss ? ExitCode.tasksLost : ExitCode.stopped);
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

/** Calls `onFirst` for the first signal and `onForce` for a later one, except SIGHUP: closing a terminal can send SIGHUP twice. */
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

async function end(output: LogOutput, code: number): Promise<never> {
  await output.end();
  process.exit(code);
}
