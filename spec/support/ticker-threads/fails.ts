/** A thread that throws while it loads. */
throw new Error('this thread never loads');
