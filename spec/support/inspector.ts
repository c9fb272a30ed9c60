import { once } from 'node:events';
import { WebSocket } from 'ws';
import { afterTest } from './cleanup.ts';
import type { Program } from './program.ts';

/** Node options with which {@link inspect} can reach a program. */
export const inspectable = ['--inspect=127.0.0.1:0'];

/** Access to the threads of a real process, by Node's inspector protocol. */
export interface Inspector {
  /**
   * Ends the threads that are alive and whose name or file fits, the oldest first and no more than `most`, in the midst of
   * what they do; one that sleeps dies when it wakes. `count` is how many there were, `dead` is fulfilled when all of
   * them are gone.
   */
  kill(thread: RegExp, most?: number): { count: number; dead: Promise<void> };
  /** Runs code in each thread that is alive and fits; one that sleeps runs it when it wakes, before anything else. */
  evaluate(thread: RegExp, expression: string): void;
  /** Waits until as many threads that fit are alive. */
  alive(thread: RegExp, count: number): Promise<void>;
  /** The value of an expression in the main thread, and in each of the others; one that sleeps tells when it wakes. */
  values(expression: string): Promise<unknown[]>;
}

/** Attaches to a program that was started with {@link inspectable}. */
export async function inspect(program: Program): Promise<Inspector> {
  const address = /Debugger listening on (ws:\S+)/.exec(program.errors())?.[1];
  if (address === undefined) throw new Error('the program was not started to be inspected');
  const socket = new WebSocket(address);
  afterTest(() => socket.terminate());
  await once(socket, 'open');

  const threads = new Map<string, string>();
  let changed = Promise.withResolvers<void>();
  let id = 0;
  const answers = new Map<number, (result: { result: { value: unknown } }) => void>();
  const send = (method: string, params: object) => socket.send(JSON.stringify({ id: ++id, method, params }));
  socket.on('message', (data) => {
    const { method, params, ...answer } = JSON.parse(data.toString());
    const toThread = method === 'NodeWorker.receivedMessageFromWorker' ? JSON.parse(params.message) : answer;
    answers.get(toThread.id)?.(toThread.result);
    answers.delete(toThread.id);
    if (method === 'NodeWorker.attachedToWorker') {
      threads.set(params.sessionId, `${params.workerInfo.title} ${params.workerInfo.url}`);
    } else if (method === 'NodeWorker.detachedFromWorker') {
      threads.delete(params.sessionId);
    } else return;
    changed.resolve();
    changed = Promise.withResolvers();
  });
  send('NodeWorker.enable', { waitForDebuggerOnStart: false });

  const fitting = (thread: RegExp) => [...threads].filter(([, name]) => thread.test(name)).map(([session]) => session);
  const evaluate = (thread: RegExp, expression: string, most = Number.POSITIVE_INFINITY): string[] => {
    const sessions = fitting(thread).slice(0, most);
    const message = JSON.stringify({ id: 0, method: 'Runtime.evaluate', params: { expression } });
    for (const sessionId of sessions) send('NodeWorker.sendMessageToWorker', { sessionId, message });
    return sessions;
  };
  /** Asks a thread, or the main one, and waits for its answer. */
  const ask = (session: string | undefined, method: string, params: object) =>
    new Promise<{ result: { value: unknown } }>((resolve) => {
      const question = ++id;
      answers.set(question, resolve);
      const message = JSON.stringify({ id: question, method, params });
      if (session === undefined) socket.send(message);
      else send('NodeWorker.sendMessageToWorker', { sessionId: session, message });
    });
  return {
    evaluate,
    values(expression) {
      return Promise.all(
        [undefined, ...threads.keys()].map(async (session) => {
          const { result } = await ask(session, 'Runtime.evaluate', { expression, returnByValue: true });
          return result.value;
        }),
      );
    },
    kill(thread, most) {
      const sessions = evaluate(thread, 'process.exit(3)', most);
      const dead = (async () => {
        while (sessions.some((session) => threads.has(session))) await changed.promise;
      })();
      return { count: sessions.length, dead };
    },
    async alive(thread, count) {
      while (fitting(thread).length !== count) await changed.promise;
    },
  };
}
