import { setTimeout } from 'node:timers/promises';
import { gather } from '../../support/crowd.ts';
import { startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { gatherCrowd, streamOf } from '../server.ts';

/** Storms of one measurement. Each begins at another time after a tick. */
const STORMS = 5;

/** How late ticks reach connected clients while many others reconnect at once. */
export function storm(clients: number, observers: number): Figure {
  return {
    name: `${clients} clients reconnect at once beside ${observers} connected clients`,
    contenders: { product: () => measure(clients, observers) },
    readings: [
      { key: 'quietMs', name: 'tick lateness before, worst', unit: 'ms' },
      { key: 'lateMs', name: 'tick lateness in the storms, worst', unit: 'ms', target: { atMost: 100 } },
      { key: 'machineMs', name: "delay of the observers' own timers, worst", unit: 'ms' },
      { key: 'seconds', name: 'until all are connected again, worst', unit: 's' },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
      { key: 'ended', name: 'observers disconnected', target: { atMost: 0 } },
    ],
  };
}

async function measure(clients: number, count: number) {
  const target = await streamOf(await startServices());
  const observers = await gather({ port: target.port, token: `${target.token}`, readers: count });
  const observe = async () => {
    const { lateMs, machineMs, open } = await observers.report();
    await observers.startOver();
    return { lateMs, machineMs, ended: count - open };
  };
  const reconnect = (concurrency: number) => gatherCrowd({ target, connections: clients, concurrency });
  let crowd = await reconnect(200);
  await observe();
  await setTimeout(3000);
  const quietMs = (await observe()).lateMs;
  let seconds = 0;
  let failed = 0;
  for (let number = 0; number < STORMS; number++) {
    await setTimeout(1000 - (Date.now() % 1000) + (number * 1000) / STORMS);
    const began = performance.now();
    crowd.disperse();
    crowd = await reconnect(clients);
    seconds = Math.max(seconds, (performance.now() - began) / 1000);
    failed += clients - crowd.size;
    // Until the tick after the storm has arrived.
    await setTimeout(1500);
  }
  return { quietMs, ...(await observe()), seconds, failed };
}
