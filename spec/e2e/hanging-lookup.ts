/** Preloaded into a program. Its start hangs at the address lookup with the number `HANGING_LOOKUP`. */
import dns from 'node:dns';

const { lookup } = dns;
let lookups = 0;

dns.lookup = ((...args: Parameters<typeof lookup>) => {
  lookups += 1;
  if (lookups < Number(process.env.HANGING_LOOKUP)) lookup(...args);
  else process.stdout.write(`${JSON.stringify({ msg: 'the start hangs' })}\n`);
}) as typeof lookup;
