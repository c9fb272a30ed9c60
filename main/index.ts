#!/usr/bin/env node
/** Program entry point. Uses only syntax that Node 12 can parse, so that an old Node.js prints the required version. */
if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else {
  void import('./launch.ts').then(({ launch }) => launch());
}
