/** Child process with one task thread, for `TASK_ISOLATION=process`. Ends with its parent, even if a handler blocks. */
import { BroadcastChannel } from 'node:worker_threads';
import { startTaskThread } from '../shared/task-thread.ts';
import type { FromTaskProcess, TaskThreadStart, ToTaskProcess } from './messages.ts';

// The parent decides when to stop, also if a signal is sent to all processes of a service.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
// Not `process.exit`, which waits for a thread that is blocked.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
process.once('message', open);

function send(message: FromTaskProcess, sent?: () => void): void {
  process.send?.(message, undefined, {}, sent);
}

/** No task comes before `isLoaded`, and aborts that arrive earlier concern other processes. */
function open(start: TaskThreadStart): void {
  const aborts = new BroadcastChannel(start.abortChannel);
  const thread = startTaskThread(start, {
    onMessage: (message) => send({ message }),
    onError() {},
    onEnd: (threadEnd) => send({ threadEnd }, () => process.exit(1)),
  });
  process.on('message', (message: ToTaskProcess) => {
    if ('abort' in message) aborts.postMessage(message.abort);
    // A thread that ends rejects the promise, and ends the process.
    else
      thread.run(message).then(
        (answer) => send({ run: message.run, answer }),
        () => {},
      );
  });
  void thread.loaded.then(() => send({ isLoaded: true }));
}
