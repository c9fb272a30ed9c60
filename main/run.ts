import { setTimeout } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { type Config, ConfigError, loadConfig } from './config.ts';
import { createLog, type LogOutput } from './log.ts';
import { type System, startSystem } from './system.ts';

/** Signals that come closer together than this are one wish: Ctrl-C reaches a process by several ways at once. */
const SAME_SIGNAL_MS = 1000;

/** The program behind `node dist/main`: settings, log, both services, and an orderly end on SIGTERM or SIGINT. */
export async function run(): Promise<void> {
  const config = readConfig();
  const output = createLog({ level: config.logLevel, format: config.logFormat });
  const { log } = output;
  // Node forwards to these streams what a thread prints. Without a listener, a terminal that is gone would end the process.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'a bug ended the process');
    void end(output, 1);
  });

  const stopped = Promise.withResolvers<NodeJS.Signals | 'disconnect'>();
  listenForSignals(output, (signal) => stopped.resolve(signal));
  // Started by an old Node (runtime.ts), which is gone.
  process.once('disconnect', () => stopped.resolve('disconnect'));

  // A start that is told to stop is stopped when it is done, if that is soon.
  const patience = stopped.promise.then(() => setTimeout(config.shutdownTimeoutMs, undefined));
  let system: System | undefined;
  try {
    system = await Promise.race([startSystem(config, output), patience]);
  } catch (error) {
    log.fatal((error as Error).message);
    return end(output, 1);
  }
  if (system === undefined) {
    log.warn('stopped during the start');
    return end(output, 0);
  }
  log.info({ signal: await stopped.promise }, 'stopping');
  const { unfinished, kept } = await system.stop();
  if (unfinished > 0 && !kept) log.warn({ unfinished }, 'stopped: accepted tasks are lost with the in-memory queue');
  else log.info({ unfinished }, 'stopped');
  await end(output, 0);
}

function readConfig(): Config {
  try {
    return loadConfig(process.env, isatty(1));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    console.error(error.message);
    process.exit(1);
  }
}

/** Tells of the first signal; a later one forces the end. */
function listenForSignals(output: LogOutput, onFirst: (signal: NodeJS.Signals) => void): void {
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = Date.now();
      onFirst(signal);
    }
    if (Date.now() - firstAt < SAME_SIGNAL_MS) return;
    output.log.warn({ signal }, 'stopped by force');
    void end(output, 1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
}

async function end(output: LogOutput, code: number): Promise<never> {
  await output.end();
  process.exit(code);
}
