import { fork } from 'node:child_process';
import type { TaskThread, TaskThreadListener } from '../../../workers/shared/task-thread.ts';
import type { FromTaskProcess, TaskAnswer, TaskThreadStart, ToTaskProcess } from '../../../workers/tasks/messages.ts';
import { threadFile } from '../../threads/supervised-thread.ts';

/**
 * Starts a child process with one task thread. Needed because V8 aborts a process if one allocation is larger than the rest
 * of a thread's heap.
 */
export function startTaskProcess(start: TaskThreadStart, { onMessage, onEnd }: TaskThreadListener): TaskThread {
  const child = fork(threadFile('tasks/task-process'), {
    serialization: 'advanced',
    // In a session of its own, because Ctrl-C in a terminal would end it before this process has stopped its tasks.
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const { promise: loaded, resolve: load } = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const answers = new Map<number, (answer: TaskAnswer) => void>();
  // If a message cannot be sent, the process has ended. A process that could not be created has no channel.
  const send = (message: TaskThreadStart | ToTaskProcess) => child.connected && child.send(message, () => {});
  const aborts = new BroadcastChannel(start.abortChannel);
  aborts.onmessage = ({ data: abort }) => send({ abort });
  let threadEnd: string | undefined;
  child.on('message', (message: FromTaskProcess) => {
    if ('answer' in message) {
      answers.get(message.run)?.(message.answer);
      answers.delete(message.run);
    } else if ('message' in message) onMessage(message.message);
    else if ('threadEnd' in message) threadEnd = message.threadEnd;
    else load();
  });
  const end = (reason: string) => {
    aborts.close();
    ended.resolve();
    onEnd(threadEnd ?? `process died: ${reason}`);
  };
  // Unlike `exit`, `close` follows the last message.
  child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
  child.on('error', ({ message }) => child.pid === undefined && end(message));
  send(start);
  return {
    loaded,
    run(request) {
      send(request);
      return new Promise((resolve) => answers.set(request.run, resolve));
    },
    async terminate() {
      child.kill('SIGKILL');
      await ended.promise;
    },
  };
}
