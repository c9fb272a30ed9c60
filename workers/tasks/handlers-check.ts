/** One-shot worker thread that imports and checks a handlers module, and reports its actions and schedules or its first problem. */
import { workerData } from 'node:worker_threads';
import { oneLine, readThrown } from '../shared/thrown.ts';
import { reportCheck } from '../shared/user-module.ts';
import type { ActionSettings, HandlersModule } from './messages.ts';
import { type LoadedHandler, loadHandlers, loadSchedules } from './module-handlers.ts';

reportCheck(async (sources): Promise<HandlersModule> => {
  const handlers = await loadHandlers(workerData.module, sources);
  const manifest = new Map<string, ActionSettings>();
  for (const [action, loaded] of handlers) manifest.set(action, await settingsOf(action, loaded));
  return { actions: manifest, schedules: await loadSchedules(workerData.module) };
});

/** @throws {Error} if the schema is not JSON or does not compile */
async function settingsOf(action: string, { handler, schema, ...others }: LoadedHandler): Promise<ActionSettings> {
  const settings = { ...others, text: String(handler) };
  if (schema === undefined) return settings;
  try {
    const plain: object = JSON.parse(JSON.stringify(schema));
    // Imported lazily, because the schema compiler takes longer to load than the rest of the thread's code.
    const { compileSchema } = await import('../submissions/data-schemas.ts');
    compileSchema(plain);
    return { ...settings, schema: plain };
  } catch (error) {
    throw new Error(
      `action ${JSON.stringify(action)}: its schema does not compile: ${oneLine(readThrown(error).reason)}`,
    );
  }
}
