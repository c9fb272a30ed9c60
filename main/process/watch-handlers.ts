import { unwatchFile, watchFile } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import type { ModuleSources } from '../../workers/shared/user-module.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import type { TasksService, WatchedModule } from '../tasks/service.ts';
import { checkHandlers } from '../threads/module-checks.ts';

const INTERVAL_MS = 200;

/**
 * Loads the handlers module again when its file or a local file that it imports changes. A module that cannot be used
 * leaves the previous one running.
 */
export function watchHandlers(
  settings: Config['tasks'],
  module: WatchedModule,
  actions: HandlersManifest,
  tasks: Pick<TasksService, 'reload'>,
  log: Log,
) {
  let present = actions;
  const watched = new Set<string>();
  const changed = new Set<string>();
  let isReloading = false;
  let isStopped = false;

  const watch = (files: ModuleSources) => {
    for (const file of [...files.keys()].map((url) => fileURLToPath(url))) {
      if (isStopped || watched.has(file)) continue;
      watched.add(file);
      watchFile(file, { interval: INTERVAL_MS }, () => {
        changed.add(relative('', file));
        if (!isReloading) void reload();
      });
    }
  };

  const reload = async (): Promise<void> => {
    isReloading = true;
    while (changed.size > 0 && !isStopped) {
      const files = [...changed].join(', ');
      changed.clear();
      const loaded: ModuleSources = new Map();
      try {
        const next = await checkHandlers(settings, undefined, loaded);
        if (isStopped) break;
        await tasks.reload(next, loaded);
        module.problem = undefined;
        log.info(`handlers module reloaded (${files}): ${describeChange(present, next.actions)}`);
        present = next.actions;
      } catch (error) {
        const { message } = error as Error;
        module.problem = message;
        log.error(`the previous handlers module keeps running: ${message}`);
      }
      watch(loaded);
    }
    isReloading = false;
  };

  watch(module.sources);
  return {
    stop(): void {
      isStopped = true;
      for (const file of watched) unwatchFile(file);
    },
  };
}

function describeChange(before: HandlersManifest, after: HandlersManifest): string {
  const kinds = Map.groupBy(new Set([...before.keys(), ...after.keys()]), (action) => {
    if (!before.has(action)) return 'added';
    if (!after.has(action)) return 'removed';
    return isDeepStrictEqual(before.get(action), after.get(action)) ? 'same' : 'changed';
  });
  kinds.delete('same');
  return [...kinds].map(([kind, names]) => `${kind} ${names.join(', ')}`).join('; ') || 'the same actions';
}
