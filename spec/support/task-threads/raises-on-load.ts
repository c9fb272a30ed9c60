/** A pool thread that cannot be loaded. */
throw new Error('this file cannot be loaded');
