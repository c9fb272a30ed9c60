import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const packages = fileURLToPath(new URL('../node_modules/', import.meta.url));

/** Modules of packages by the specifier that imports them, each with its file and its name in `shared/vendor/`. */
const VENDOR: Readonly<Record<string, readonly [file: string, name: string]>> = {
  // uPlot's minified build only declares a global variable. An added export turns the build into a module.
  uplot: ['uplot/dist/uPlot.iife.min.js', 'uplot.js'],
  preact: ['preact/dist/preact.mjs', 'preact.js'],
  'preact/hooks': ['preact/hooks/dist/hooks.mjs', 'hooks.js'],
  'preact/jsx-runtime': ['preact/jsx-runtime/dist/jsxRuntime.mjs', 'jsx-runtime.js'],
  '@preact/signals': ['@preact/signals/dist/signals.mjs', 'signals.js'],
  '@preact/signals-core': ['@preact/signals-core/dist/signals-core.mjs', 'signals-core.js'],
};

const OTHER_FILES = {
  'uplot/dist/uPlot.min.css': 'uplot.css',
  'uplot/LICENSE': 'uplot.LICENSE.txt',
  'preact/LICENSE': 'preact.LICENSE.txt',
  '@preact/signals/LICENSE': 'signals.LICENSE.txt',
};

const PACKAGE_IMPORT = /\b(from|import)\s*["']([@a-z][\w/@-]*)["'];?/g;
const STATIC_IMPORT = /^(?:import|export)\s*(?:[\w\s{},*$]+?from\s*)?['"]([^'"]+)['"];?$/gm;
const PAGE_SCRIPT = /^( *)<script type="module" src="([^"]+)"><\/script>$/m;

/** Returns the file of the URL path of a module. */
type FileOf = (path: string) => string;

/** Copies the modules, styles and licences of packages to `www/shared/vendor/`, and makes all modules import them there. */
export function writeVendor(www: string): void {
  const vendor = `${www}shared/vendor/`;
  mkdirSync(vendor, { recursive: true });
  for (const [file, name] of [...Object.values(VENDOR), ...Object.entries(OTHER_FILES)]) {
    const text = readFileSync(packages + file, 'utf8').replace(/^\/\/# sourceMappingURL=.*$/m, '');
    writeFileSync(vendor + name, name === 'uplot.js' ? `${text}\nexport default uPlot;\n` : text);
  }
  // An import map would be inline. The line breaks let `modulesFrom` find the imports of minified modules.
  for (const file of globSync(`${www}{shared,shared/vendor,tasks,ticker}/*.js`)) {
    const text = readFileSync(file, 'utf8').replace(PACKAGE_IMPORT, (statement, keyword: string, specifier: string) => {
      const name = VENDOR[specifier]?.[1];
      return name === undefined ? statement : `${keyword} '/shared/vendor/${name}';\n`;
    });
    writeFileSync(file, text);
  }
}

/**
 * Adds `modulepreload` links to an HTML page for its module script and all modules that the script imports.
 *
 * @throws {Error} if the page has no module script, or an imported module has no file
 */
export function addModulePreloads(page: string, fileOf: FileOf): string {
  const [script, indentation = '', entry = ''] = PAGE_SCRIPT.exec(page) ?? [];
  if (script === undefined) throw new Error('the page has no module script');
  const links = modulesFrom(entry, fileOf).map((path) => `${indentation}<link rel="modulepreload" href="${path}">\n`);
  return page.replace(script, () => links.join('') + script);
}

/**
 * Returns one module in place of a module and all that it imports. The modules share a scope then, so their top-level
 * names must differ: otherwise the module does not load.
 */
export function joinModules(entry: string, fileOf: FileOf): string {
  const texts = modulesFrom(entry, fileOf).map((path) => readFileSync(fileOf(path), 'utf8'));
  const declarations = texts
    .slice(1)
    .map((text) => text.replaceAll(/^import .*;\n|^export {};\n|^export (?=async|class|const|function)/gm, ''));
  // The entry exports names that are in the same module now.
  const exported = texts[0]?.replaceAll(/^(export .*) from '[^']+';$/gm, '$1;');
  return declarations.reverse().join('') + exported;
}

/** Returns the URL paths of a module and of all modules that it imports, directly or indirectly. */
function modulesFrom(entry: string, fileOf: FileOf): string[] {
  const paths = new Set([entry]);
  for (const path of paths) {
    const text = readFileSync(fileOf(path), 'utf8');
    for (const [, specifier = ''] of text.matchAll(STATIC_IMPORT)) {
      paths.add(new URL(specifier, `http://page${path}`).pathname);
    }
  }
  return [...paths];
}
