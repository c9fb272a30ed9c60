import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { shownPath } from '../../workers/shared/frames.ts';
import type { ModuleSources } from '../../workers/shared/user-module.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import type { TasksService, WatchedModule } from '../tasks/service.ts';
import { type CheckedModule, checkHandlers } from '../threads/one-shot-threads.ts';

const INTERVAL_MS = 200;
const NO_DEFINITION = 'changed code outside of the handlers';

/**
 * Loads the handlers module again when its file or a local file that it imports changes. A module that cannot be used
 * leaves the previous one running.
 */
export function watchHandlers(
  settings: Config['tasks'],
  module: WatchedModule,
  first: CheckedModule,
  tasks: Pick<TasksService, 'reload'>,
  log: Log,
) {
  let present = definitionsOf(first);
  /** Text of each file when it was read last. Undefined if the file is missing. */
  const texts = new Map<string, string | undefined>();
  const changed = new Set<string>();
  let isReloading = false;
  let isStopped = false;

  // From the text that was loaded, so that a change since then is found.
  const follow = (files: ModuleSources) => {
    for (const [url, { format, source }] of files) {
      const file = fileURLToPath(url);
      if (texts.has(file)) continue;
      // Node.js reads a CommonJS module later, and a missing file has no format.
      if (source != null) texts.set(file, String(Buffer.from(source)));
      else texts.set(file, format ? read(file) : undefined);
    }
  };

  const look = () => {
    for (const [file, text] of texts) {
      const newest = read(file);
      if (newest === text) continue;
      texts.set(file, newest);
      changed.add(shownPath(file));
    }
    if (changed.size === 0 || isReloading) return;
    isReloading = true;
    void reload().finally(() => {
      isReloading = false;
    });
  };

  const reload = async (): Promise<void> => {
    const files = [...changed];
    changed.clear();
    const loaded: ModuleSources = new Map();
    let next: CheckedModule | undefined;
    try {
      next = await checkHandlers(settings, undefined, loaded);
      if (isStopped) return;
      await tasks.reload(next, loaded);
      module.problem = undefined;
      const definitions = definitionsOf(next);
      log.info(`handlers module reloaded (${files.join(', ')}): ${describeChange(present, definitions)}`);
      present = definitions;
    } catch (error) {
      const { message } = error as Error;
      if (next === undefined || message !== module.problem)
        log.error(`the previous handlers module keeps running: ${message}`);
      module.problem = message;
      // Its limits and schedules could not be stored. The next look tries again.
      if (next !== undefined) for (const file of files) changed.add(file);
    }
    follow(loaded);
  };

  follow(module.sources);
  const timer = setInterval(look, INTERVAL_MS);
  return {
    stop(): void {
      isStopped = true;
      clearInterval(timer);
    },
  };
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function definitionsOf({ actions, schedules }: CheckedModule): ReadonlyMap<string, unknown> {
  const named = [...schedules].map(([name, definition]): [string, unknown] => [`schedule ${name}`, definition]);
  return new Map([...actions, ...named]);
}

function describeChange(before: ReadonlyMap<string, unknown>, after: ReadonlyMap<string, unknown>): string {
  const kinds = Map.groupBy(new Set([...before.keys(), ...after.keys()]), (name) => {
    if (!before.has(name)) return 'added';
    if (!after.has(name)) return 'removed';
    return isDeepStrictEqual(before.get(name), after.get(name)) ? 'same' : 'changed';
  });
  kinds.delete('same');
  return [...kinds].map(([kind, names]) => `${kind} ${names.join(', ')}`).join('; ') || NO_DEFINITION;
}
