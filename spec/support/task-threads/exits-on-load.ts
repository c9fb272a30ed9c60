/** A pool thread that ends before it is loaded. */
process.exit(3);
