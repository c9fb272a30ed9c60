/** A thread that exits before it is ready, without an error. */
process.exit(0);
