/** A pool thread without a function to run. */
export const nothing = undefined;
