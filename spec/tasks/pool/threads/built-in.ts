/** A task thread without a handlers module. A task's action names its behaviour. */
import { existsSync, writeFileSync } from 'node:fs';
import type { TaskAnswer, ToTaskThread } from '../../../../workers/tasks/messages.ts';

export default (message: ToTaskThread): TaskAnswer | undefined => {
  if ('selfTest' in message) return undefined;
  const { action, data } = JSON.parse(message.body);
  if (action === 'hang') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  if (action === 'wait') {
    writeFileSync(data.begun, '');
    while (!existsSync(data.go));
  }
  const told = action === 'tell' ? ({ acknowledged: 'ack', progress: { fraction: 1 } } as const) : {};
  return { outcome: { ended: 'returned', output: JSON.stringify(action) }, ms: 1500, ...told };
};
