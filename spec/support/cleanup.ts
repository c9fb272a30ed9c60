import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock } from 'node:test';
import { failIfUndescribed } from './contract-watch.ts';

type Cleanup = () => unknown;

const cleanups: Cleanup[] = [];

/** Runs `cleanup` after the current test, whether or not it passes. Cleanups run in reverse order of registration. */
export function afterTest(cleanup: Cleanup): void {
  cleanups.push(cleanup);
}

/**
 * Starts something once for the tests of the enclosing suite, for tests that only read it. What `start` registers with
 * {@link afterTest} is cleaned up after the suite. A suite can call this once.
 */
export function onceForSuite<Started>(start: () => Promise<Started>): () => Started {
  let started: Started;
  let own: Cleanup[] = [];
  let outer: number;
  before(async () => {
    outer = expectedLeaks;
    try {
      started = await start();
    } finally {
      own = cleanups.splice(0);
      expectedLeaks = leaks().length;
    }
  });
  after(async () => {
    expectedLeaks = outer;
    await cleanUp(own);
  });
  return () => started;
}

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ticker-spec-'));
  afterTest(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Writes a file into a folder of its own, and returns its path. */
export async function temporaryFile(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(await temporaryFolder(), name);
  await writeFile(path, content);
  return path;
}

// Mocha sends SIGTERM to a worker that exits later than a second after its shutdown, whose coverage would be lost.
if (process.env.MOCHA_WORKER_ID !== undefined) process.on('SIGTERM', () => {});

const LEAKS = ['TCPServerWrap', 'ProcessWrap', 'MessagePort', 'FSEventWrap'];

/** Number of resources that belong to running suites. */
let expectedLeaks = 0;

const unhandled: unknown[] = [];

export const mochaHooks = {
  // Mocha ignores unhandled rejections, and removes this listener after each file.
  beforeAll: () => void process.on('unhandledRejection', (reason) => unhandled.push(reason)),
  afterEach() {
    // Before the cleanups, which must see the original functions.
    mock.reset();
    return cleanUp(cleanups.splice(0));
  },
};

/** Runs cleanups, last one first. Fails if a rejection was not handled, or anything is open that belongs to no suite. */
async function cleanUp(own: Cleanup[]): Promise<void> {
  const errors: unknown[] = [];
  for (const cleanup of [...own.reverse(), failIfUndescribed]) {
    try {
      await cleanup();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, `cleaning up failed: ${errors.join('; ')}`);
  const rejections = unhandled.splice(0);
  if (rejections.length > 0) throw new AggregateError(rejections, `not handled: ${rejections.join('; ')}`);
  // Stopped resources may need a moment to close.
  for (let turn = 0; turn < 100 && leaks().length > expectedLeaks; turn++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  if (leaks().length > expectedLeaks) throw new Error(`the test left running: ${leaks().join(', ')}`);
}

function leaks(): string[] {
  return process.getActiveResourcesInfo().filter((kind) => LEAKS.includes(kind));
}
