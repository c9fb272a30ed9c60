/** A submission thread that throws while it loads. */
throw new Error('does not start');
