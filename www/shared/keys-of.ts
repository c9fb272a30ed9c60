/** Returns the names of a table's entries, with their type. */
export const keysOf = <Name extends string>(table: Readonly<Record<Name, unknown>>) => Object.keys(table) as Name[];
