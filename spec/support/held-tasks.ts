import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { temporaryFolder } from './cleanup.ts';

/** Creates a handlers module with the action `hold`, whose tasks run until they are aborted or `release` is called. */
export async function holdTasks() {
  const folder = await temporaryFolder();
  const [module, released] = [join(folder, 'handlers.ts'), join(folder, 'released')];
  const source = `import { existsSync } from 'node:fs';
    import { setTimeout } from 'node:timers/promises';
    export default {
      async hold(_, { signal }) {
        while (!existsSync(${JSON.stringify(released)})) await setTimeout(10, undefined, { signal });
        return 'held';
      },
    };`;
  await writeFile(module, source);
  return { module, release: () => writeFile(released, '') };
}
