/** A pool thread that throws while it loads. */
throw new Error('this file cannot be loaded');
