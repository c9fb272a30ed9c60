throw new Error('this thread never loads');
