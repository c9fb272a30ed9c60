import { once } from 'node:events';
import { WebSocket } from 'ws';
import { afterTest } from './cleanup.ts';
import type { Program } from './program.ts';
import { Condition } from './until.ts';

/** Node options that let {@link inspect} attach to a program. */
export const inspectable = ['--inspect=127.0.0.1:0'];

export type Inspector = Awaited<ReturnType<typeof inspect>>;

/** Result of a command; undefined if the command failed. */
type Result = { result: { value: unknown } } | undefined;

/** Attaches to a program that was started with {@link inspectable}, for access to its threads. */
export async function inspect(program: Program) {
  const address = /Debugger listening on (ws:\S+)/.exec(program.errors())?.[1];
  if (address === undefined) throw new Error('the program was not started to be inspected');
  const socket = new WebSocket(address);
  afterTest(() => socket.terminate());
  await once(socket, 'open');

  /** Names and files of the threads, by session id. */
  const threads = new Map<string, string>();
  const attached = new Condition();
  let id = 0;
  const answers = new Map<number, (result: Result) => void>();
  /** Sends a command to the main thread, or to another one. Resolves with the result, if there is one. */
  const send = (method: string, params: object, session?: string) => {
    const question = ++id;
    const answer = new Promise<Result>((resolve) => answers.set(question, resolve));
    const message = JSON.stringify({ id: question, method, params });
    if (session === undefined) socket.send(message);
    else void send('NodeWorker.sendMessageToWorker', { sessionId: session, message });
    return answer.finally(() => answers.delete(question));
  };
  socket.on('message', (data) => {
    const { method, params, ...answer } = JSON.parse(data.toString());
    const toThread = method === 'NodeWorker.receivedMessageFromWorker' ? JSON.parse(params.message) : answer;
    answers.get(toThread.id)?.(toThread.result);
    if (method === 'NodeWorker.attachedToWorker') {
      threads.set(params.sessionId, `${params.workerInfo.title} ${params.workerInfo.url}`);
    } else if (method === 'NodeWorker.detachedFromWorker') {
      threads.delete(params.sessionId);
    } else return;
    attached.changed();
  });
  void send('NodeWorker.enable', { waitForDebuggerOnStart: false });

  const fitting = (thread: RegExp) => [...threads].filter(([, name]) => thread.test(name)).map(([session]) => session);
  /** Returns the value of an expression as the only element of an array, which is empty if the thread ends first. */
  const valueIn = (session: string | undefined, expression: string): Promise<unknown[]> => {
    const answer = send('Runtime.evaluate', { expression, returnByValue: true }, session);
    // The result is undefined if the thread was terminated while it evaluated the expression.
    const answered = answer.then((reply) => (reply === undefined ? [] : [reply.result.value]));
    const ended = attached.found(() => (session === undefined || threads.has(session) ? undefined : []));
    return Promise.race([answered, ended]);
  };
  return {
    valueOfMain: async (expression: string): Promise<unknown> => (await valueIn(undefined, expression))[0],
    /** Returns the values of an expression in all threads, the main thread first. Leaves out a thread that ends. */
    async values(expression: string): Promise<unknown[]> {
      const sessions = [undefined, ...threads.keys()];
      return (await Promise.all(sessions.map((session) => valueIn(session, expression)))).flat();
    },
    /** Terminates matching threads, the oldest first and at most `most`. `dead` resolves once they have ended. */
    kill(thread: RegExp, most?: number): { count: number; dead: Promise<unknown> } {
      const sessions = fitting(thread).slice(0, most);
      for (const session of sessions) void valueIn(session, 'process.exit(3)');
      const hasEnded = () => sessions.every((session) => !threads.has(session)) || undefined;
      return { count: sessions.length, dead: attached.found(hasEnded) };
    },
    async alive(thread: RegExp, count: number): Promise<void> {
      await attached.found(() => fitting(thread).length === count || undefined);
    },
  };
}
