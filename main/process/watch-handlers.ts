import { readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { shownPath } from '../../workers/shared/frames.ts';
import type { ModuleSources } from '../../workers/shared/user-module.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import type { TasksService, WatchedModule } from '../tasks/service.ts';
import { type CheckedModule, checkHandlers } from '../threads/module-checks.ts';

const INTERVAL_MS = 200;
const NO_DEFINITION = 'changed code outside of the handlers';
/** Delay after which a module is stored again, for example because the database is away. */
const RETRY_MS = 1000;

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
      const present = read(file);
      if (present === text) continue;
      texts.set(file, present);
      changed.add(shownPath(file));
    }
    if (changed.size > 0 && !isReloading) void reload();
  };

  const reload = async (): Promise<void> => {
    isReloading = true;
    let retried: string | undefined;
    while (changed.size > 0 && !isStopped) {
      const files = [...changed];
      changed.clear();
      const loaded: ModuleSources = new Map();
      let isLoaded = false;
      try {
        const next = await checkHandlers(settings, undefined, loaded);
        isLoaded = true;
        if (isStopped) break;
        await tasks.reload(next, loaded);
        module.problem = undefined;
        const definitions = definitionsOf(next);
        log.info(`handlers module reloaded (${files.join(', ')}): ${describeChange(present, definitions)}`);
        present = definitions;
      } catch (error) {
        const { message } = error as Error;
        module.problem = message;
        if (message !== retried) log.error(`the previous handlers module keeps running: ${message}`);
        retried = isLoaded ? message : undefined;
      }
      follow(loaded);
      if (retried === undefined || module.problem === undefined) continue;
      for (const file of files) changed.add(file);
      await setTimeout(RETRY_MS, undefined, { ref: false });
    }
    isReloading = false;
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

type Definitions = ReadonlyMap<string, unknown>;

function definitionsOf({ actions, schedules }: CheckedModule): Definitions {
  const named = [...schedules].map(([name, definition]): [string, unknown] => [`schedule ${name}`, definition]);
  return new Map([...actions, ...named]);
}

function describeChange(before: Definitions, after: Definitions): string {
  const kinds = Map.groupBy(new Set([...before.keys(), ...after.keys()]), (name) => {
    if (!before.has(name)) return 'added';
    if (!after.has(name)) return 'removed';
    return isDeepStrictEqual(before.get(name), after.get(name)) ? 'same' : 'changed';
  });
  kinds.delete('same');
  return [...kinds].map(([kind, names]) => `${kind} ${names.join(', ')}`).join('; ') || NO_DEFINITION;
}
