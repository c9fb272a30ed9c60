/** Loaded before a program: its start hangs when it looks up the address of a listener for the time `HANGING_LOOKUP`. */
import dns from 'node:dns';

const { lookup } = dns;
let lookups = 0;

dns.lookup = ((...args: Parameters<typeof lookup>) => {
  lookups += 1;
  if (lookups < Number(process.env.HANGING_LOOKUP)) lookup(...args);
  else process.stdout.write(`${JSON.stringify({ msg: 'the start hangs' })}\n`);
}) as typeof lookup;
