import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices, untilTask } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

describe('a handler that fails in an imported file', () => {
  it('shows the file, line and column in the log, in the history of its attempts and in the dead letter', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'lib.ts'), 'export function parse(text: string) {\n  return JSON.parse(text);\n}\n');
    const source = `import { parse } from ${JSON.stringify(join(folder, 'lib.ts'))};
      export default {
        read: { maxAttempts: 2, backoff: { firstMs: 1 }, handler({ text }) {
          try { return parse(text); } catch (cause) { throw new Error('unreadable', { cause }); }
        } },
      };`;
    const services = await startServices({ env: { TASK_HANDLERS: await writeHandlers(source) } });
    const { id } = (await post(`${services.tasks}/tasks`, { action: 'read', data: { text: '{' } })).body;
    const { history } = await untilTask(services.tasks, id, 'failed');
    const place =
      /^Error\n {4}at .*\/handlers\.ts:5:\d+\)\ncaused by SyntaxError: .*\n {4}at parse \(\/.*\/lib\.ts:2:15\)\n {4}at /;
    for (const attempt of history as { stack: string }[]) expect(attempt.stack).to.match(place);
    const [letter] = (await request(`${services.tasks}/dead-letters`)).body.dead_letters;
    expect(letter.history).to.deep.equal(history);
    const line = await services.logged(({ msg, decision }) => msg === 'task failed' && decision === 'discard');
    expect(line).to.deep.include({ task: id, action: 'read', stack: history[1].stack });
  });
});
