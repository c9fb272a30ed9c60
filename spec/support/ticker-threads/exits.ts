/** A thread that ends before it is ready, without an error. */
process.exit(0);
