import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian package of each required program. */
const PACKAGES: Readonly<Record<string, string>> = {
  caddy: 'caddy',
  gcc: 'gcc',
  nginx: 'nginx',
  openssl: 'openssl',
  promtool: 'prometheus',
  psql: 'postgresql-client',
  'redis-server': 'redis-server',
  script: 'bsdutils',
  setsid: 'util-linux',
  'systemd-analyze': 'systemd',
  wrk: 'wrk',
};

/** Defines a suite that is pending if `lacking` names a missing requirement. CI fails then if it can install it. */
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

/** Returns the path of a program on the PATH or in the folders that Debian keeps off the PATH. */
export function program(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}
