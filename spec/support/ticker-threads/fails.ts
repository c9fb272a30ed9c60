/** A thread that fails while it loads. */
throw new Error('this thread never loads');
