import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { loadConfig } from '../../main/config.ts';
import { watchHandlers } from '../../main/process/watch-handlers.ts';
import { type CheckedModule, checkHandlers } from '../../main/threads/one-shot-threads.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { watchThreads } from '../support/threads.ts';
import { until } from '../support/until.ts';

const SLOW = `import { existsSync, writeFileSync } from 'node:fs';
  writeFileSync(new URL('begun', import.meta.url), '');
  while (!existsSync(new URL('end', import.meta.url))) await new Promise(setImmediate);`;

describe('a large handlers module whose end changes while it is checked', () => {
  for (const isStopped of [false, true])
    it(isStopped ? 'is not used after a stop' : 'is checked again after that until it is used', async () => {
      mock.timers.enable({ apis: ['setInterval'] });
      const folder = await temporaryFolder();
      const TASK_HANDLERS = join(folder, 'handlers.mjs');
      const write = (action: string, before = '') =>
        writeFileSync(TASK_HANDLERS, `//${'x'.repeat(100_000)}\n${before}\nexport default { ${action}() {} };`);
      write('first');
      const { tasks } = loadConfig({ TASK_HANDLERS });
      const sources = new Map();
      const first = await checkHandlers(tasks, undefined, sources);
      const used: string[] = [];
      const reload = async ({ actions }: CheckedModule) => {
        const times = used.push([...actions.keys()].at(-1) ?? '');
        if (times === 2 || times === 3) throw new Error('the limits are not stored');
      };
      const { log, lines } = captureLog();
      write('second', SLOW);
      const watch = watchHandlers(tasks, { sources }, first, { reload }, log);
      afterTest(() => watch.stop());
      const ended = once(process, 'worker').then(([worker]) => once(worker, 'exit'));
      mock.timers.tick(200);
      await until(() => existsSync(join(folder, 'begun')));
      write('third');
      mock.timers.tick(400);
      if (isStopped) watch.stop();
      writeFileSync(join(folder, 'end'), '');
      await ended;
      await new Promise(setImmediate);
      await until(() => {
        mock.timers.tick(200);
        return isStopped || used.length === 4;
      });
      const watched = watchThreads();
      mock.timers.tick(200);
      await new Promise(setImmediate);
      expect(watched.threads).to.deep.equal([]);
      expect(used).to.deep.equal(isStopped ? [] : ['second', 'third', 'third', 'third']);
      expect(lines.filter(({ level }) => level === 50)).to.have.length(isStopped ? 0 : 1);
    });
});
