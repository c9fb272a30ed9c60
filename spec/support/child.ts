import { fork } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterTest } from './cleanup.ts';

/** A child process that replies to each message with one message. */
export interface Child<Message, Reply> {
  ask(message: Message): Promise<Reply>;
}

/** Starts a TypeScript file in a child process and waits for its first message. The child is killed after the test. */
export async function startChild<Message, Reply>(file: URL, args: string[] = []): Promise<Child<Message, Reply>> {
  const child = fork(fileURLToPath(file), args, { execArgv: [] });
  const exited = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${basename(file.pathname)} ended with ${code ?? signal}`);
  });
  exited.catch(() => {});
  afterTest(async () => {
    child.kill('SIGKILL');
    await exited.catch(() => {});
  });
  const nextMessage = async () => (await Promise.race([once(child, 'message'), exited]))[0];
  await nextMessage();
  return {
    ask(message) {
      child.send(message as object);
      return nextMessage();
    },
  };
}
