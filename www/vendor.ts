import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const packages = fileURLToPath(new URL('../node_modules/', import.meta.url));

/** Modules of packages by the specifier that imports them, each with its file and its name in `vendor/`. */
const MODULES: Readonly<Record<string, readonly [file: string, name: string]>> = {
  preact: ['preact/dist/preact.mjs', 'preact.js'],
  'preact/hooks': ['preact/hooks/dist/hooks.mjs', 'hooks.js'],
  'preact/jsx-runtime': ['preact/jsx-runtime/dist/jsxRuntime.mjs', 'jsx-runtime.js'],
  '@preact/signals': ['@preact/signals/dist/signals.mjs', 'signals.js'],
  '@preact/signals-core': ['@preact/signals-core/dist/signals-core.mjs', 'signals-core.js'],
};

const LICENCES = { uplot: 'uplot', preact: 'preact', '@preact/signals': 'signals' };

const PACKAGE_IMPORT = /\b(from|import)\s*["']([@a-z][\w/@-]*)["'];?/g;

/** Writes the packages' modules, styles and licences to the folder `vendor` of a page. */
export function writeVendor(page: string): void {
  const vendor = `${page}/vendor/`;
  mkdirSync(vendor, { recursive: true });
  const copy = (file: string, name: string, change = (text: string) => text) =>
    writeFileSync(vendor + name, change(readFileSync(packages + file, 'utf8')));
  // uPlot's minified build only declares a global variable. The added export turns the build into a module.
  copy('uplot/dist/uPlot.iife.min.js', 'uplot.js', (text) => `${text}\nexport default uPlot;\n`);
  copy('uplot/dist/uPlot.min.css', 'uplot.css');
  for (const [file, name] of Object.values(MODULES)) {
    copy(file, name, (text) => withVendorPaths(text.replace(/^\/\/# sourceMappingURL=.*$/m, '')));
  }
  for (const [source, name] of Object.entries(LICENCES)) copy(`${source}/LICENSE`, `${name}.LICENSE.txt`);
}

/** Makes the compiled modules of a folder import packages from `/vendor`, because an import map would be inline. */
export function rewriteImports(folder: string): void {
  for (const file of globSync(`${folder}/*.js`)) {
    writeFileSync(file, withVendorPaths(readFileSync(file, 'utf8')));
  }
}

/** The line breaks let `modulesFrom` find the imports of minified modules. */
function withVendorPaths(text: string): string {
  return text.replace(PACKAGE_IMPORT, (statement, keyword: string, specifier: string) => {
    const name = MODULES[specifier]?.[1];
    return name === undefined ? statement : `${keyword} '/vendor/${name}';\n`;
  });
}
