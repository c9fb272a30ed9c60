import { expect } from 'chai';
import type { RunningServices } from './program.ts';
import { connect } from './websocket.ts';

/** A client of the stream that counts what it gets. */
export interface SteadyClient {
  /** Ticks so far. */
  ticks(): number;
  /** Asserts that the connection is open and that no second was without its tick. */
  check(): void;
}

/** Connects to a stream that ticks once a second. */
export async function watchSteadily(services: RunningServices): Promise<SteadyClient> {
  const { socket } = await connect(services.stream, { token: await services.token() });
  const seconds: number[] = [];
  socket.on('message', (data) => {
    const message = JSON.parse(data.toString());
    if (message.type === 'ticker') seconds.push(message.data[0].timestamp);
  });
  return {
    ticks: () => seconds.length,
    check() {
      expect(socket.readyState).to.equal(socket.OPEN);
      // The first may be the snapshot, of the same second as the tick after it.
      for (const [index, second] of seconds.entries()) {
        if (index > 0)
          expect(second - (seconds[index - 1] as number), `tick ${index}`).to.be.within(index === 1 ? 0 : 1, 1);
      }
    },
  };
}
