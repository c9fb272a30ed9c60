#!/usr/bin/env node
/**
 * Entry point of `node dist/main` and of the `ticker-and-tasks` command. Uses only what Node 12 can parse, so that a
 * Node.js that is too old says so in one line. From Node 18 on, `launch` starts the Node.js in `node_modules` if needed.
 */
if (Number.parseInt(process.versions.node, 10) < 18) {
  console.error(`Node 18 or newer is needed, this is ${process.versions.node}: install it from https://nodejs.org`);
  process.exitCode = 1;
} else {
  void import('./launch.ts').then(({ launch }) => launch());
}
