import type { World } from './world.ts';

/** Time for which a request without an answer may still take effect. */
export const UNCERTAIN_MS = 10_000;

/** Called with the answer to a request, or with its error, unless the process has died meanwhile. */
type OnAnswer<Answer> = (answer: Answer | undefined, error?: Error) => unknown;

/** Functions that are called before requests, by the name of the method. */
type Watchers<Target> = {
  [Name in keyof Target]?: NonNullable<Target[Name]> extends (...values: infer Values) => infer Answer
    ? (...values: Values) => OnAnswer<Awaited<Answer>> | undefined
    : never;
};

/** Follows the requests of a process to an object, and their answers. */
export function watch<Target extends object>(
  target: Target,
  process: { isDead: boolean },
  watchers: Watchers<Target>,
): void {
  type OnRequest = (...values: unknown[]) => OnAnswer<unknown> | undefined;
  for (const [name, onRequest] of Object.entries(watchers as Record<string, OnRequest>)) {
    const method = Reflect.get(target, name) as ((...values: unknown[]) => unknown) | undefined;
    if (method === undefined) continue;
    const request = (...values: unknown[]) => {
      const onAnswer = onRequest(...values);
      const result = method.apply(target, values);
      const answered = (answer?: unknown, error?: Error) => process.isDead || onAnswer?.(answer, error);
      if (result instanceof Promise) void result.then(answered, (error) => answered(undefined, error));
      else answered(result);
      return result;
    };
    Reflect.set(target, name, request);
  }
}

export type KnownValue<T> = ReturnType<typeof knownValue<T>>;

/** A value that requests change, such as the pause, as far as their answers show it. */
export function knownValue<T>(world: World, is?: T) {
  let requests = 0;
  /** Whether a request has no answer. */
  let isPending = false;
  /** Until when a request without an answer may take effect after a later one. */
  let uncertainUntil = 0;
  const known = {
    /** The value that has certainly taken effect. */
    value: is === undefined ? undefined : { is },

    /** Called when no request without an answer can take effect any more. */
    settle(): void {
      isPending = false;
      uncertainUntil = 0;
    },

    /** Begins a request. Returns a function to call with the value after the answer. */
    request(): (is: T | undefined) => void {
      this.value = undefined;
      if (isPending) uncertainUntil = world.now + UNCERTAIN_MS;
      isPending = true;
      requests += 1;
      const request = requests;
      const isCertain = world.now >= uncertainUntil;
      return (is) => {
        if (request !== requests) return;
        isPending = false;
        if (isCertain && is !== undefined) this.value = { is };
      };
    },
  };
  world.known.push(known);
  return known;
}
