import { defaultSymbols, type TickerSymbol } from '../../workers/shared/symbols.ts';
import { type Answered, checkAnswer, checkFrame, type ServiceName, serviceNames } from './contract.ts';
import { parseResponses } from './http-responses.ts';

const MAX_NOTED = 20;
const LENGTH = /^(content-length|transfer-encoding): .*\r\n/gim;
/** Checked services by listening port. Responses of other ports are not checked. */
const watched = new Map<number, { service: ServiceName | undefined; symbols: readonly TickerSymbol[] }>();
const failures = new Set<string>();

/** Checks the responses of a port until `forget` is called, and the frames unless `symbols` is empty. */
export function holdToContract(port: number, name: string, symbols = defaultSymbols): { forget(): void } {
  watched.set(port, { service: serviceNames.find((each) => each === name), symbols });
  return { forget: () => void watched.delete(port) };
}

/** @throws {Error} if a response or frame since the last call did not match the contract */
export function failIfUndescribed(): void {
  const all = [...failures];
  failures.clear();
  if (all.length > 0) throw new Error(all.join('\n'));
}

export function serviceAt(at: number | string): ServiceName | undefined {
  return watched.get(typeof at === 'number' ? at : Number(new URL(at).port))?.service;
}

/** Checks a response. A mismatch fails the test at its end. */
export function noteAnswer(service: ServiceName | undefined, answer: Omit<Answered, 'service'>): void {
  if (service !== undefined) note(() => checkAnswer({ ...answer, service }));
}

/** Checks a frame. A mismatch fails the test at its end. */
export function noteFrame(url: string, text: string, protocol: string): void {
  const { service, symbols = [] } = watched.get(Number(new URL(url).port)) ?? {};
  if (service === 'ticker' && symbols.length > 0) note(() => checkFrame(text, symbols, protocol));
}

/** Checks raw responses in latin1. Without the first request, which is `sent`, they may belong to any operation. */
export function noteWire(service: ServiceName | undefined, wire: string, sent = ''): void {
  if (service === undefined || wire === '') return;
  const [, method = '', path = ''] = /^([A-Z]+) (\/\S*) HTTP\/1\.1\r\n/.exec(sent) ?? [];
  let request = method === '' ? undefined : { method, path };
  // A response to HEAD has no body, and frames follow a 101.
  const headOnly = method === 'HEAD' || wire.startsWith('HTTP/1.1 101 ');
  note(() => {
    const head = wire.slice(0, wire.indexOf('\r\n\r\n') + 4).replace(LENGTH, 'Content-Length: 0\r\n');
    const { responses } = parseResponses(headOnly ? head : wire);
    for (const { status, headers, body } of responses) {
      if (status === 100) continue;
      checkAnswer({ service, request, status, headers, body });
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
