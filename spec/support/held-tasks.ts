import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { writeHandlers } from '../tasks/handlers/handling.ts';

/** Creates a handlers module with the action `hold`, whose tasks run until they are aborted or `release` is called. */
export async function holdTasks() {
  const module = await writeHandlers(`import { existsSync } from 'node:fs';
    import { setTimeout } from 'node:timers/promises';
    export default {
      async hold(_, { signal }) {
        while (!existsSync(new URL('released', import.meta.url))) await setTimeout(10, undefined, { signal });
        return 'held';
      },
    };`);
  return { module, release: () => writeFile(join(dirname(module), 'released'), '') };
}
