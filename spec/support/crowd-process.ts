/** Many clients of the stream in one process, some of which never read. `crowd.ts` starts it. */
import { StreamClient } from '../load/stream-client.ts';
import { checkFrame } from './contract.ts';
import type { CrowdReport, CrowdStart, CrowdTask } from './crowd.ts';

const { port, token, readers, silent, chatty, madeUp = false } = JSON.parse(process.argv[2] ?? '') as CrowdStart;

/** Largest number of concurrent handshakes, below a server's listen backlog. */
const AT_ONCE = 200;
/** A ping of the maximum size. */
const PING = Buffer.alloc(125);

/** Distinct ticks in the order of their first arrival, and each tick's position in that order. */
const ticks: string[] = [];
const positions = new Map<string, number>();
const seen = { gaps: 0, types: {} as Record<string, number>, closed: {} as Record<number, number> };

interface Member {
  client: StreamClient;
  reads: boolean;
  snapshot: boolean;
  /** Position of the newest tick received; -1 before the first. */
  newest: number;
  closed: boolean;
}

const members: Member[] = [];
const wanted = [
  ...Array<'reader'>(readers).fill('reader'),
  ...Array<'silent'>(silent).fill('silent'),
  ...Array<'chatty'>(chatty).fill('chatty'),
];
let joined = 0;

function openMore(): void {
  while (members.length - joined < AT_ONCE && wanted.length > 0) open(wanted.pop() as 'reader' | 'silent' | 'chatty');
}

function open(kind: 'reader' | 'silent' | 'chatty'): void {
  const reads = kind === 'reader';
  let hasJoined = false;
  const client = new StreamClient(
    { host: '127.0.0.1', port, path: '/ws/ticker', token, silent: !reads },
    {
      onOpen() {
        hasJoined = true;
        if (++joined === members.length && wanted.length === 0) process.send?.('joined');
        openMore();
      },
      onText: (payload) => take(member, payload.toString('latin1')),
      onOther: (opcode) => count(`opcode ${opcode}`),
      onEnd(reason) {
        member.closed = true;
        if (!hasJoined) throw new Error(`a client cannot join: ${reason}`);
        const code = /^close code (\d+)$/.exec(reason)?.[1];
        if (code !== undefined) seen.closed[Number(code)] = (seen.closed[Number(code)] ?? 0) + 1;
      },
    },
  );
  const member: Member = { client, reads, snapshot: false, newest: -1, closed: false };
  members.push(member);
  if (kind === 'chatty') setInterval(() => client.ping(PING), 500);
}

function count(type: string): void {
  seen.types[type] = (seen.types[type] ?? 0) + 1;
}

function take(member: Member, text: string): void {
  const type = /^{"type":"(\w+)"/.exec(text)?.[1] ?? text;
  count(type);
  if (type !== 'ticker') return;
  if (!member.snapshot) {
    member.snapshot = true;
    return;
  }
  let place = positions.get(text);
  if (place === undefined) {
    if (!madeUp) checkFrame(text);
    place = ticks.push(text) - 1;
    positions.set(text, place);
  }
  if (member.newest >= 0 && place !== member.newest + 1) seen.gaps++;
  member.newest = place;
}

process.on('message', (task: CrowdTask) => {
  const readers = members.filter(({ reads }) => reads);
  if (task === 'let all read') {
    for (const member of members) member.reads = true;
    for (const { client } of members) client.read();
    process.send?.(task);
    return;
  }
  const goal = ticks.length - 1;
  // Reports once all readers have received the newest tick, or one of them has disconnected.
  const answer = () => {
    const behind = readers.filter(({ newest }) => newest < goal).length;
    if (behind > 0 && readers.every(({ closed }) => !closed)) {
      setTimeout(answer, 5);
      return;
    }
    const open = members.filter(({ closed }) => !closed).length;
    const timestamps = ticks.map((text) => Number(/"timestamp":(\d+)/.exec(text)?.[1]));
    process.send?.({ ...seen, open, behind, timestamps } satisfies CrowdReport);
  };
  answer();
});

openMore();
