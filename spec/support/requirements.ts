import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * A suite that needs something of the machine: pending where `lacking` says what is absent.
 *
 * @param installable whether CI could have installed it, and so must not lack it
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

/** What to say of the first of these programs that is not on this machine; undefined where all are. */
export function lackingProgram(...names: string[]): string | undefined {
  const name = names.find((each) => program(each) === undefined);
  return name === undefined ? undefined : `there is no ${name} on this machine`;
}

/** Where a program is, on the path or where Debian keeps those of the administrator. */
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
