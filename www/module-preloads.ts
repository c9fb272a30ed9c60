import { readFileSync } from 'node:fs';

const SCRIPT = /^( *)<script type="module" src="([^"]+)"><\/script>$/m;
const STATIC_IMPORT = /^(?:import|export)\s*(?:[\w\s{},*$]+?from\s*)?['"]([^'"]+)['"];?$/gm;

/**
 * Adds `modulepreload` links to an HTML page for its module script and all modules that the script imports.
 * @param fileOf returns the source file of a URL path
 * @throws {Error} if the page has no module script, or an imported module has no file
 */
export function addModulePreloads(page: string, fileOf: (path: string) => string): string {
  const [script, indentation = '', entry = ''] = SCRIPT.exec(page) ?? [];
  if (script === undefined) throw new Error('the page has no module script');
  const links = modulesFrom(entry, fileOf).map((path) => `${indentation}<link rel="modulepreload" href="${path}">\n`);
  return page.replace(script, () => links.join('') + script);
}

/** Returns the URL paths of a module and of all modules that it imports, directly or indirectly. */
export function modulesFrom(entry: string, fileOf: (path: string) => string): string[] {
  const paths = new Set([entry]);
  for (const path of paths) {
    const text = readFileSync(fileOf(path), 'utf8');
    for (const [, specifier = ''] of text.matchAll(STATIC_IMPORT)) {
      paths.add(new URL(specifier, `http://page${path}`).pathname);
    }
  }
  return [...paths];
}
