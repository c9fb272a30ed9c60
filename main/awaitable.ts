/** A value that is there, or comes from elsewhere. */
export type Awaitable<Value> = Value | Promise<Value>;
