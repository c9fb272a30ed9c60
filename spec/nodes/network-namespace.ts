import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { afterTest } from '../support/cleanup.ts';
import { lackingProgram } from '../support/requirements.ts';

const ip = (...args: string[]) => promisify(execFile)('ip', args);

/** Returns what this machine lacks for a network namespace, or undefined. */
export function lackingNamespaces(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root makes network namespaces';
  return lackingProgram('ip');
}

/** Creates a simulated host on two networks, one of which can silently drop all packets. It is removed after the test. */
export async function makeNetworkNamespace() {
  const id = randomBytes(3).toString('hex');
  const name = `spec-${id}`;
  await ip('netns', 'add', name);
  afterTest(() => ip('netns', 'delete', name));
  await ip('-n', name, 'link', 'set', 'lo', 'up');
  const network = async (letter: string) => {
    const [near, far] = [`s${letter}${id}`, `t${letter}${id}`];
    const prefix = `10.${200 + Math.floor(Math.random() * 50)}.${Math.floor(Math.random() * 250)}`;
    await ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name);
    afterTest(() => ip('link', 'delete', near).catch(() => {}));
    await ip('address', 'add', `${prefix}.1/24`, 'dev', near);
    await ip('-n', name, 'address', 'add', `${prefix}.2/24`, 'dev', far);
    await ip('link', 'set', near, 'up');
    await ip('-n', name, 'link', 'set', far, 'up');
    return { far, near: `${prefix}.1`, address: `${prefix}.2` };
  };
  const clients = await network('c');
  const servers = await network('s');
  const set = (state: 'up' | 'down') => ip('-n', name, 'link', 'set', servers.far, state);
  return {
    /** Command prefix that runs a program in the namespace. */
    within: ['ip', 'netns', 'exec', name],
    /** Address of the namespace, on the network that is never cut. */
    address: clients.address,
    /** This host's address on the network that can be cut. */
    gateway: servers.near,
    /** Drops all packets in both directions without closing any connection. */
    cut: () => set('down').then(() => {}),
    mend: () => set('up').then(() => {}),
  };
}
