/** Returns the keys of a table with their type, which `Object.keys` widens to `string`. */
export const keysOf = <Name extends string>(table: Readonly<Record<Name, unknown>>) => Object.keys(table) as Name[];
