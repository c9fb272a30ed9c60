import { isLoopbackAddress } from './http/host-header.ts';

interface Address {
  host: string;
  port: number;
}

/** Returns the text that a terminal shows after startup: the URLs, the demo user's API key, and how to stop. */
export function banner(listeners: { ticker: Address; tasks: Address; admin?: Address }, apiKey: string): string {
  const { ticker, tasks, admin } = listeners;
  const lines = [
    `Prices      ${urlOf(ticker)}   API key ${apiKey}`,
    `Tasks       ${urlOf(tasks)}`,
    ...(admin === undefined ? [] : [`Operation   ${urlOf(admin)}`]),
    'Ctrl-C stops both services.',
  ];
  return `\n${lines.map((line) => `  ${line}\n`).join('')}\n`;
}

const WILDCARDS = ['0.0.0.0', '::'];

function urlOf({ host, port }: Address): string {
  const isHere = WILDCARDS.includes(host) || isLoopbackAddress(host);
  return `http://${isHere ? 'localhost' : host.includes(':') ? `[${host}]` : host}:${port}`;
}
