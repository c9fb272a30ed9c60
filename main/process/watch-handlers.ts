import { unwatchFile, watchFile } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import type { ModuleSources } from '../../workers/shared/user-module.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log/log.ts';
import type { TasksService } from '../tasks/service.ts';
import { type CheckedModule, checkHandlers } from '../threads/module-checks.ts';

const INTERVAL_MS = 200;

/**
 * Loads the handlers module again when its file or a local file that it imports changes. A module that cannot be used
 * leaves the previous one running.
 *
 * @param sources files from which the present module was loaded
 */
export function watchHandlers(
  settings: Config['tasks'],
  module: CheckedModule,
  sources: ModuleSources,
  tasks: Pick<TasksService, 'reload' | 'reportModule'>,
  log: Log,
) {
  let present = module;
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
        tasks.reportModule(undefined);
        log.info(`handlers module reloaded (${files}): ${describeChange(present, next)}`);
        present = next;
      } catch (error) {
        const { message } = error as Error;
        tasks.reportModule(message);
        log.error(`the previous handlers module keeps running: ${message}`);
      }
      watch(loaded);
    }
    isReloading = false;
  };

  watch(sources);
  return {
    stop(): void {
      isStopped = true;
      for (const file of watched) unwatchFile(file);
    },
  };
}

function describeChange(before: CheckedModule, after: CheckedModule): string {
  const names = ({ actions }: CheckedModule) => [...actions.keys()];
  const isChanged = (action: string) =>
    before.texts.get(action) !== after.texts.get(action) ||
    !isDeepStrictEqual(before.actions.get(action), after.actions.get(action));
  const changes = {
    added: names(after).filter((action) => !before.actions.has(action)),
    removed: names(before).filter((action) => !after.actions.has(action)),
    changed: names(after).filter((action) => before.actions.has(action) && isChanged(action)),
  };
  const parts = Object.entries(changes).filter(([, actions]) => actions.length > 0);
  if (parts.length === 0) return 'the same actions';
  return parts
    .map(([how, actions]) => `${how} ${actions.map((action) => JSON.stringify(action)).join(', ')}`)
    .join('; ');
}
