function hang() {
  for (;;);
}

function eat() {
  for (const meals = []; ; ) meals.push(new Array(10_000).fill({}));
}

export default { hang: { maxAttempts: 1, handler: hang }, eat: { maxAttempts: 1, handler: eat } };
