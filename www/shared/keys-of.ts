export const keysOf = <Name extends string>(table: Readonly<Record<Name, unknown>>) => Object.keys(table) as Name[];
