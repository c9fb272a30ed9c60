import fc from 'fast-check';
import { type Sending, sendings } from '../../support/http-corpus.ts';
import { checkAnswers, exchange } from '../../support/http-exchange.ts';
import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker, Service } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';
import { floodBounds } from '../verdict.ts';

const REQUESTS = 3600;
const CONNECTIONS = 300;

const smallest = 'GET / HTTP/1.1\r\n\r\n';

/** Repeatedly opens connections, sends the same bytes on all of them at once, and waits for their end. */
const sendAtOnce = (attacker: Attacker, bytes: string) =>
  attacker.repeat(1, async () => {
    const sockets = await attacker.connections('tasks', CONNECTIONS);
    for (const socket of sockets) socket.write(bytes);
    attacker.actions += sockets.length * REQUESTS;
    await Promise.all(sockets.map((socket) => attacker.answer(socket)));
  });

export const pipelines = {
  'requests-in-one-packet': {
    bounds: floodBounds,
    attack: (attacker) => sendAtOnce(attacker, smallest.repeat(REQUESTS)),
    outcomes: /^(400|408|no answer|refused)$/,
  },
  'upgrade-after-requests': {
    attack: async (attacker) => {
      const token = await attacker.token(9);
      const before = head('GET /shared/vendor/uplot.js HTTP/1.1', 'Host: localhost').repeat(3);
      await attacker.repeat(8, async () => {
        const wire = await attacker.send('ticker', before + head(...handshake('/ws/ticker', token)), 9);
        // The upgrade must not overtake earlier responses.
        const at = wire.indexOf('HTTP/1.1 101');
        const isOvertaken = at >= 0 && (wire.slice(0, at).match(/^HTTP\/1\.1 200/gm) ?? []).length < 3;
        attacker.got(isOvertaken ? 'upgrade overtook an answer' : 'in order');
      });
    },
    outcomes: /^(200|in order|no answer)$/,
  },
} satisfies Scenarios;

const services: readonly Service[] = ['ticker', 'tasks', 'admin'];
const TASK = '{"action":"x"}';

const wrongHosts = [
  ['Host: evil.example'],
  ['Host: localhost', 'Host: evil.example'],
  [],
  ['Host: local host'],
  ['Host: localhost.evil.example:80'],
] as const;

const crossSite = [
  ['Sec-Fetch-Site: cross-site'],
  ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors', 'Content-Type: text/plain'],
  ['Origin: https://evil.example'],
  ['Origin: null'],
] as const;

function requestTo(attacker: Attacker, service: Service): string[] {
  if (service === 'ticker' && attacker.random.below(2) === 0) return handshake().filter((line) => !/^Host/.test(line));
  return ['GET / HTTP/1.1', 'Connection: close'];
}

export const origins = {
  'foreign-hosts': {
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const service = attacker.random.pick(services);
        return attacker.send(service, head(...requestTo(attacker, service), ...attacker.random.pick(wrongHosts)));
      }),
    outcomes: /^(400|421)$/,
  },
  'cross-site-requests': {
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const headers = attacker.random.pick(crossSite);
        if (attacker.random.below(2) === 0) return attacker.post('tasks', '/tasks', TASK, [...headers]);
        const lines = ['GET /metrics HTTP/1.1', 'Host: localhost', 'Connection: close'];
        return attacker.send('admin', head(...lines, ...headers));
      }),
    outcomes: /^403$/,
  },
} satisfies Scenarios;

const CHUNK = 50;

const fuzzes = (service: 'ticker' | 'tasks') => async (attacker: Attacker) => {
  let samples: Sending[] = [];
  let { seed } = attacker;
  await attacker.repeat(4, async () => {
    if (samples.length === 0) samples = fc.sample(sendings, { seed: seed++, numRuns: CHUNK });
    checkAnswers(await exchange(attacker.mark.ports[service], samples.pop() as Sending));
    attacker.actions += 1;
    attacker.got('proper');
  });
};

export const fuzz = {
  'fuzzed-requests-ticker': { attack: fuzzes('ticker') },
  'fuzzed-requests-tasks': { attack: fuzzes('tasks') },
} satisfies Scenarios;
