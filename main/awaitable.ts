/** Result of a method that is synchronous in some implementations of an interface and asynchronous in others. */
export type Awaitable<Value> = Value | Promise<Value>;
