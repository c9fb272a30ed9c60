import { handshake, head } from '../../support/raw-connection.ts';
import type { Attacker, Service } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';

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
