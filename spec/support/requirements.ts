import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian package of each program that a spec needs. k6 has none. */
const PACKAGES: Readonly<Record<string, string>> = {
  caddy: 'caddy',
  chromium: 'chromium',
  ip: 'iproute2',
  nginx: 'nginx',
  'nats-server': 'nats-server',
  openssl: 'openssl',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  'redis-server': 'redis-server',
  script: 'bsdutils',
  setpriv: 'util-linux',
  setsid: 'util-linux',
  'systemd-analyze': 'systemd',
  unshare: 'util-linux',
  wrk: 'wrk',
};

/**
 * Defines a suite that needs something of the machine. The suite is pending if `lacking` says what is missing.
 *
 * @param installable whether CI can install it, so that CI fails where it is missing
 */
export function describeWith(lacking: string | undefined, title: string, define: () => void, installable = true): void {
  const pending = lacking !== undefined && !(installable && process.env.CI === 'true');
  describe(pending ? `${title} (pending: ${lacking})` : title, () => {
    before(function () {
      if (pending) this.skip();
      if (lacking !== undefined) throw new Error(lacking);
    });
    define();
  });
}

/** Returns which of these programs is missing and how to install it; undefined if all are present. */
export function lackingProgram(...names: string[]): string | undefined {
  const name = names.find((each) => program(each) === undefined);
  return name === undefined ? undefined : lacking(name, PACKAGES[name]);
}

/** Text of a pending spec: what is missing, and the Debian package that has it. */
export function lacking(what: string, debianPackage: string | undefined): string {
  const advice = debianPackage === undefined ? 'Debian has no package of it' : `apt-get install ${debianPackage}`;
  return `no ${what} on this machine: ${advice}`;
}

/** Path of a program: on PATH, or in the folders of administration programs, which Debian keeps off it. */
export function program(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
