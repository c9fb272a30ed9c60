import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian package of each required program. k6 has none. */
const PACKAGES: Readonly<Record<string, string>> = {
  caddy: 'caddy',
  chromium: 'chromium',
  gcc: 'gcc',
  ip: 'iproute2',
  nginx: 'nginx',
  openssl: 'openssl',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  'redis-server': 'redis-server',
  script: 'bsdutils',
  setsid: 'util-linux',
  'systemd-analyze': 'systemd',
  unshare: 'util-linux',
  wrk: 'wrk',
};

/**
 * Defines a suite with requirements. The suite is pending if `lacking` names a missing one.
 *
 * @param installable whether CI can install the requirement, so that a missing one fails in CI
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

/** Returns which of these programs is missing and how to install it, or undefined if all are present. */
export function lackingProgram(...names: string[]): string | undefined {
  const name = names.find((each) => program(each) === undefined);
  return name === undefined ? undefined : lacking(name, PACKAGES[name]);
}

/** Returns the text of a pending spec: the missing requirement and its Debian package. */
export function lacking(what: string, debianPackage: string | undefined): string {
  const advice = debianPackage === undefined ? 'Debian has no package of it' : `apt-get install ${debianPackage}`;
  return `no ${what} on this machine: ${advice}`;
}

/**
 * Returns the path of a program on the PATH or in the folders of administration programs, which Debian keeps off the
 * PATH.
 */
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
