/** Many clients of the stream in one process, some of which never read. `crowd.ts` starts it. */
import { Crowd } from '../load/crowd.ts';
import { checkFrame } from './contract.ts';
import type { CrowdReport, CrowdStart, CrowdTask } from './crowd.ts';

const { port, token, readers, silent, chatty, madeUp = false } = JSON.parse(process.argv[2] ?? '') as CrowdStart;
const connections = readers + silent + chatty;

/** Distinct messages. Each is checked once. */
const messages = new Set<string>();
const types: Record<string, number> = {};

const crowd = new Crowd({
  target: { host: '127.0.0.1', port, path: '/ws/ticker', token },
  connections,
  silent: silent + chatty,
  pinging: chatty,
  // Below the listen backlog of a server.
  concurrency: 200,
  onText(text) {
    const type = /^{"type":"(\w+)"/.exec(text)?.[1] ?? text;
    types[type] = (types[type] ?? 0) + 1;
    if (messages.has(text)) return;
    messages.add(text);
    if (!madeUp) checkFrame(text);
  },
});

/** Reports once all readers have received the newest tick, or one of them has disconnected. */
async function report(): Promise<CrowdReport> {
  let lacking: number;
  do lacking = await crowd.catchUp(100);
  while (lacking > 0 && crowd.size >= readers);
  const closed: Record<string, number> = {};
  for (const [reason, count] of crowd.losses) {
    const code = /^close code (\d+)$/.exec(reason)?.[1];
    if (code !== undefined) closed[code] = count;
  }
  const { missed, timestamps } = crowd.record.report();
  return { open: crowd.size, lacking, missed, timestamps, types, closed };
}

process.on('message', async (task: CrowdTask) => {
  if (task === 'let all read') crowd.letAllRead();
  process.send?.(task === 'report' ? await report() : task);
});

await crowd.gather();
if (crowd.size < connections) throw new Error(`clients cannot join: ${[...crowd.losses.keys()]}`);
process.send?.('joined');
