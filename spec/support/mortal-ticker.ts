/** The real ticker, except that a message of the spec lets it die, or hang forever. */
const channel = new BroadcastChannel('fate');
channel.onmessage = ({ data }: MessageEvent) => {
  channel.postMessage('heard');
  if (data === 'die') process.exit(7);
  // Blocks the thread without using the CPU.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};

await import('../../workers/ticker/ticker.ts');

export {};
