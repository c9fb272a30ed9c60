import { readFileSync } from 'node:fs';

const SCRIPT = /^( *)<script type="module" src="([^"]+)"><\/script>$/m;
const STATIC_IMPORT = /^(?:import|export)\s*(?:[\w\s{},*$]+?from\s*)?['"]([^'"]+)['"];?$/gm;

/**
 * Adds `modulepreload` links for the page's module script and every module that it imports statically, so that the
 * browser requests all of them at once.
 *
 * @param fileOf returns the file that the service serves at a path
 * @throws {Error} if the page has no module script, or a module does not exist
 */
export function addModulePreloads(page: string, fileOf: (path: string) => string): string {
  const [script, indentation = '', entry = ''] = SCRIPT.exec(page) ?? [];
  if (script === undefined) throw new Error('the page has no module script');
  const links = modulesFrom(entry, fileOf).map((path) => `${indentation}<link rel="modulepreload" href="${path}">\n`);
  return page.replace(script, () => links.join('') + script);
}

/** Returns the paths of a module and of all modules that it imports, directly or not. */
function modulesFrom(entry: string, fileOf: (path: string) => string): string[] {
  const paths = new Set([entry]);
  for (const path of paths) {
    const text = readFileSync(fileOf(path), 'utf8');
    for (const [, specifier = ''] of text.matchAll(STATIC_IMPORT)) {
      paths.add(new URL(specifier, `http://page${path}`).pathname);
    }
  }
  return [...paths];
}
