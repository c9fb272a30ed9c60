/** The real ticker, except that it dies when it is poisoned. */
const channel = new BroadcastChannel('poison');
channel.onmessage = () => {
  channel.postMessage('dies');
  process.exit(7);
};

await import('../../../workers/ticker/ticker.ts');

export {};
