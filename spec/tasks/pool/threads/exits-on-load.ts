/** A pool thread that exits while it loads. */
process.exit(3);
