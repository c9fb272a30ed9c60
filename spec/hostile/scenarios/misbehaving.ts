/** Handlers module whose actions misbehave. */
export default {
  hang: {
    maxAttempts: 1,
    handler() {
      for (;;);
    },
  },
  eat: {
    maxAttempts: 1,
    handler() {
      for (const meals = []; ; ) meals.push(new Array(10_000).fill({}));
    },
  },
};
