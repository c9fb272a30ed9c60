import { sep } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Whether this project is installed as a package of another project. Otherwise it is a clone. */
export const isDependency = fileURLToPath(import.meta.url)
  .split(sep)
  .includes('node_modules');
