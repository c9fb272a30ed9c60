/** Result of a method that is synchronous in some implementations and asynchronous in others. */
export type Awaitable<Value> = Value | Promise<Value>;
