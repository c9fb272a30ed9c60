import fc from 'fast-check';
import { exchange, type Sending, sendings } from '../../support/broken-requests.ts';
import { handshake, head, lastHead } from '../../support/raw-connection.ts';
import { type Attacker, repeating, type Scenarios, type Service } from '../attacker.ts';
import { floodBounds } from '../verdict.ts';

const REQUESTS = 3600;
const CONNECTIONS = 300;

export const pipelines = {
  'requests-in-one-packet': {
    bounds: floodBounds,
    attack: repeating(1, async (attacker) => {
      const sockets = await attacker.sendOnEach('tasks', CONNECTIONS, 'GET / HTTP/1.1\r\n\r\n'.repeat(REQUESTS));
      await Promise.all(sockets.map((socket) => attacker.answer(socket)));
    }),
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

const wrongHosts = [
  ['Host: evil.example'],
  ['Host: localhost', 'Host: evil.example'],
  [],
  ['Host: local host'],
  ['Host: localhost.evil.example:80'],
];

const crossSite = [
  ['Sec-Fetch-Site: cross-site'],
  ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors', 'Content-Type: text/plain'],
  ['Origin: https://evil.example'],
  ['Origin: null'],
];

export const origins = {
  'foreign-hosts': {
    attack: repeating(8, (attacker) => {
      const { random } = attacker;
      const service = random.pick(services);
      const isStream = service === 'ticker' && random.below(2) === 0;
      const [request = '', , ...headers] = isStream ? handshake() : ['GET / HTTP/1.1', '', 'Connection: close'];
      return attacker.send(service, head(request, ...headers, ...random.pick(wrongHosts)));
    }),
    outcomes: /^(400|421)$/,
  },
  'cross-site-requests': {
    attack: repeating(8, (attacker) => {
      const headers = attacker.random.pick(crossSite);
      if (attacker.random.below(2) === 0) return attacker.submit('{"action":"x"}', ...headers);
      return attacker.send('admin', lastHead('GET /metrics', ...headers));
    }),
    outcomes: /^403$/,
  },
} satisfies Scenarios;

const CHUNK = 50;

const fuzzes = (service: Service) => async (attacker: Attacker) => {
  let samples: Sending[] = [];
  let { seed } = attacker;
  await attacker.repeat(4, async () => {
    if (samples.length === 0) samples = fc.sample(sendings, { seed: seed++, numRuns: CHUNK });
    await exchange(attacker.mark.ports[service], samples.pop() as Sending);
    attacker.actions += 1;
    attacker.got('proper');
  });
};

export const fuzz = {
  'fuzzed-requests-ticker': { attack: fuzzes('ticker') },
  'fuzzed-requests-tasks': { attack: fuzzes('tasks') },
} satisfies Scenarios;
