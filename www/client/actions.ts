/** Built-in actions, which a handlers module may replace. */
interface BuiltInActions {
  uppercase: (data: { text?: string }) => string;
  sum: (data: { numbers?: number[] }) => number;
}

// biome-ignore lint/suspicious/noExplicitAny: data and output are unknown without a handlers module.
export type AnyActions = Record<string, (data: any) => any>;

/** `Own` is the type of a handlers module's default export. */
type Actions<Own> = Omit<BuiltInActions, keyof Own> & Own;

type HandlerOf<Own, Name extends keyof Actions<Own>> = Actions<Own>[Name] extends { handler: infer Handler }
  ? Handler
  : Actions<Own>[Name];

export type ActionName<Own> = keyof Actions<Own> & string;

/** Data of an action: the first parameter of its handler. */
export type DataOf<Own, Name extends ActionName<Own>> =
  HandlerOf<Own, Name> extends (data: infer Data, ...others: never[]) => unknown
    ? unknown extends Data
      ? Record<string, unknown>
      : Data
    : never;

/** Output of an action: what its handler returns, as JSON. */
export type OutputOf<Own, Name extends ActionName<Own>> =
  HandlerOf<Own, Name> extends (...all: never[]) => infer Output ? Json<Awaited<Output>> : never;

/** A value after `JSON.parse(JSON.stringify(value))`. */
type Json<Value> = unknown extends Value
  ? Value
  : Value extends { toJSON(): infer Plain }
    ? Plain
    : Value extends object
      ? { [Key in keyof Value]: Json<Value[Key]> }
      : Value;
