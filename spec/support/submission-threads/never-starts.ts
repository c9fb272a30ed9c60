/** A submission thread that fails while its code is loaded. */
throw new Error('does not start');
