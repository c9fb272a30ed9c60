/** A pool thread that exports no function. */
export const nothing = undefined;
