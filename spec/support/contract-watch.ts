import { type ServiceName, servers } from '../../main/contracts/servers.ts';
import { type Answered, checkAnswer, checkFrame } from './contract.ts';
import { parseResponses } from './http-responses.ts';

/** Which service each port belongs to while it is listened on; a port that is not here is none of the contract's. */
const services = new Map<number, ServiceName>();
/** Ports of service A whose messages are made up. */
const invented = new Set<number>();
const failures = new Set<string>();

/** Has all that a port answers checked against the contract, until `forget` is called; its frames only where they are real. */
export function holdToContract(port: number, service: string, realFrames = true): { forget(): void } {
  if (service in servers) services.set(port, service as ServiceName);
  if (!realFrames) invented.add(port);
  const forget = () => {
    services.delete(port);
    invented.delete(port);
  };
  return { forget };
}

/** @throws {Error} when anything since the last call was not as the contract says */
export function failIfUndescribed(): void {
  const all = [...failures];
  failures.clear();
  if (all.length > 0) throw new Error(all.join('\n'));
}

/** The service that listens on a port or at an address, if it is held to the contract. */
export function serviceAt(at: number | string): ServiceName | undefined {
  return services.get(typeof at === 'number' ? at : Number(new URL(at).port));
}

/** Notes an answer that the contract does not describe; the test fails when it is over. */
export function noteAnswer(service: ServiceName | undefined, answer: Omit<Answered, 'service'>): void {
  if (service !== undefined) note(() => checkAnswer({ ...answer, service }));
}

/** Notes a frame that the contract does not describe. */
export function noteFrame(url: string, text: string): void {
  if (serviceAt(url) === 'ticker' && !invented.has(Number(new URL(url).port))) note(() => checkFrame(text));
}

/**
 * Notes what came over a connection, as latin1.
 *
 * @param sent what the client sent first, where that is known; later requests are answered by any operation
 */
export function noteWire(service: ServiceName | undefined, wire: string, sent = ''): void {
  if (service === undefined || wire === '') return;
  const [, method = '', path = ''] = /^([A-Z]+) (\/\S*) HTTP\/1\.1\r\n/.exec(sent) ?? [];
  let request = method === '' ? undefined : { method, path };
  // No body comes to HEAD, and what follows a 101 is frames.
  const headOnly = method === 'HEAD' || wire.startsWith('HTTP/1.1 101 ');
  note(() => {
    const end = wire.indexOf('\r\n\r\n') + 4;
    const { responses } = headOnly
      ? parseResponses(
          wire.slice(0, end).replace(/^(content-length|transfer-encoding): .*\r\n/gim, 'Content-Length: 0\r\n'),
        )
      : parseResponses(wire);
    for (const { status, headers, body } of responses) {
      if (status === 100) continue;
      checkAnswer({ service, request, status, headers: new Headers([...headers]), body });
      request = undefined;
    }
  });
}

function note(check: () => void): void {
  try {
    check();
  } catch (error) {
    if (failures.size < MAX_NOTED) failures.add((error as Error).message);
  }
}

const MAX_NOTED = 20;
