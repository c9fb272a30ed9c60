import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

export interface PlannedListener {
  host: string | undefined;
  /** 0 stands for any free port, undefined for no listener. */
  port: number | undefined;
  reusePort?: boolean;
  variables: { host: string; port: string };
}

/**
 * Binds all addresses briefly, so that startup reports every unusable port before it changes anything. Skips listeners
 * with `reusePort`, because other processes may already listen on their port.
 *
 * @throws {Error} with a one-line message that names the settings to change
 */
export async function checkPorts(listeners: readonly PlannedListener[]): Promise<void> {
  const planned = listeners.filter(({ port, reusePort }) => port !== undefined && !reusePort);
  // All host names are resolved before the first bind, so that no port stays bound during a lookup.
  const addresses = planned.map(resolve);
  await Promise.allSettled(addresses);
  const servers = planned.map(() => createServer((socket) => socket.destroy()));
  const bind = async (server: Server, index: number) => {
    await once(server.listen({ port: planned[index]?.port, ...(await addresses[index]) }), 'listening');
  };
  const failures = await Promise.all(
    servers.map((server, index) => bind(server, index).catch((error: NodeJS.ErrnoException) => error)),
  );
  // All ports stay bound until each has been tried, so that two listeners with the same port are noticed.
  await Promise.all(servers.map((server) => new Promise((resolved) => server.close(resolved))));
  const taken = planned.filter((_, index) => failures[index]?.code === 'EADDRINUSE');
  const bound = planned.filter((_, index) => failures[index] === undefined);
  for (const { host, port, variables } of taken) {
    const same = bound.find((other) => other.port === port && overlap(other.host, host));
    if (same === undefined) continue;
    throw new Error(`${same.variables.port} and ${variables.port} are both ${port}: set one of them to another port`);
  }
  if (taken.length > 1) {
    const ports = taken.map(({ port, variables }) => `${port} (${variables.port})`).join(', ');
    throw new Error(
      `the ports ${ports} are in use: stop the program that uses them, or set the variables to other ports`,
    );
  }
  for (const [index, listener] of planned.entries()) {
    const failure = failures[index];
    if (failure !== undefined) explainListenError(listener)(failure);
  }
}

/** Whether two listeners with the same port exclude each other, because they have the same host or one has all. */
function overlap(one: string | undefined, other: string | undefined): boolean {
  const isAny = (host = '::') => host === '::' || host === '0.0.0.0';
  return one === other || isAny(one) || isAny(other);
}

/** Uses `dns.lookup`, as `Server.listen` does, so that the check binds the address that the listener will bind. */
async function resolve({ host }: PlannedListener): Promise<{ host?: string }> {
  return host === undefined ? {} : { host: (await dns.promises.lookup(host)).address };
}

/** Returns a `catch` handler that rethrows an error of `listen` with the name of the setting to change. */
export function explainListenError({ port, variables }: PlannedListener) {
  return (error: NodeJS.ErrnoException): never => {
    const { code = '', syscall, message } = error;
    if (syscall !== 'listen' && syscall !== 'getaddrinfo') throw error;
    const reasons: Record<string, string> = {
      EADDRINUSE: `port ${port} is in use: stop the program that uses it, or set ${variables.port} to another port`,
      EACCES: `this user may not listen on port ${port}: set ${variables.port} to a port above 1023`,
      EADDRNOTAVAIL: `the address does not belong to this machine: set ${variables.host} to one of its addresses`,
      ENOTFOUND: `the host name cannot be resolved: set ${variables.host} to an address of this machine`,
    };
    const reason = reasons[code] ?? `cannot listen on port ${port} (${variables.port}): ${message}`;
    throw new Error(reason, { cause: error });
  };
}
