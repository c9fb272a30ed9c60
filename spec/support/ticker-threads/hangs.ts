/** The real ticker, except that it hangs forever when it is poisoned. */
const channel = new BroadcastChannel('poison');
channel.onmessage = () => {
  channel.postMessage('hangs');
  // Blocks the thread without using the CPU.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};

await import('../../../workers/ticker/ticker.ts');

export {};
