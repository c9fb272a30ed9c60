import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../support/cleanup.ts';

/** A child process that replies to each message with one message. */
export interface Child<Message, HttpResponse> {
  ask(message: Message): Promise<HttpResponse>;
}

/** Starts a program of this folder in a child process and waits until it is ready. */
export async function startChild<Message extends object, HttpResponse>(
  file: string,
): Promise<Child<Message, HttpResponse>> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), [], { execArgv: [] });
  const exited = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`${file} ended with ${code ?? signal}`);
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
      child.send(message);
      return nextMessage();
    },
  };
}
