import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Debian packages of the programs whose package has another name. */
const PACKAGES: Readonly<Record<string, string>> = {
  ...{ promtool: 'prometheus', psql: 'postgresql-client', script: 'bsdutils', setsid: 'util-linux' },
  'systemd-analyze': 'systemd',
};

/** Defines a suite that is pending if `lacking` names a missing requirement. CI, which installs all requirements, fails then. */
export function describeWith(lacking: string | undefined, title: string, define: () => void): void {
  const pending = lacking !== undefined && process.env.CI !== 'true';
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
  return name === undefined ? undefined : lacking(name, PACKAGES[name] ?? name);
}

/** Returns the text of a pending spec: the missing requirement and its Debian package. */
export function lacking(what: string, debianPackage: string): string {
  return `no ${what} on this machine: apt-get install ${debianPackage}`;
}

/** Returns the path of a program on the PATH or in the folders that Debian keeps off the PATH. */
export function program(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path));
}
