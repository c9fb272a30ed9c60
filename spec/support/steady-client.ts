import { expect } from 'chai';
import type { RunningServices } from './program.ts';
import { until } from './until.ts';
import { connect } from './websocket.ts';

/** Longest gap between two ticks, which are one second apart, on a loaded machine. */
const MAX_GAP_SECONDS = 5;

/** Connects a client that records its ticks to a stream with one tick a second. */
export async function watchSteadily(services: Pick<RunningServices, 'stream' | 'token'>) {
  const { socket } = await connect(services.stream, { token: await services.token() });
  const seconds: number[] = [];
  socket.on('message', (data) => {
    const message = JSON.parse(data.toString());
    if (message.type === 'ticker') seconds.push(message.data[0].timestamp);
  });
  const check = () => {
    expect(socket.readyState).to.equal(socket.OPEN);
    expect(seconds).to.not.have.length(0);
    const gaps = seconds.slice(1).map((second, index) => second - (seconds[index] as number));
    for (const gap of gaps) expect(gap, `gaps ${gaps}`).to.be.within(0, MAX_GAP_SECONDS);
  };
  return {
    ticks: () => seconds.length,
    check,
    async checkAfterNextTick() {
      const { length } = seconds;
      await until(() => seconds.length > length);
      check();
    },
  };
}
