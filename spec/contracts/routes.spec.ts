import type Router from '@koa/router';
import { expect } from 'chai';
import { adminRouter } from '../../main/admin/app.ts';
import { indexRouter } from '../../main/admin/index-page.ts';
import { openApi } from '../../main/contracts/openapi.ts';
import { servers } from '../../main/contracts/servers.ts';
import { actionsRouter } from '../../main/tasks/http/actions-router.ts';
import { deadLettersRouter } from '../../main/tasks/http/dead-letters-router.ts';
import { eventsRouter } from '../../main/tasks/http/events-router.ts';
import { queueRouter } from '../../main/tasks/http/queue-router.ts';
import { queueStatusRouter } from '../../main/tasks/http/queue-status-router.ts';
import { tasksRouter } from '../../main/tasks/http/tasks-router.ts';
import { authRouter } from '../../main/ticker/auth-router.ts';
import { pricesRouter } from '../../main/ticker/prices-router.ts';
import { wsRouter } from '../../main/ticker/ws-router.ts';

/** Paths of the static clients, which no router serves. The admin listener has a router for `/`. */
const STATIC = ['/', '/{path}'];
/** Options for a router of which the spec only reads the routes. */
const nothing = { queue: {} } as never;

/** Returns the methods of each path in the contract's notation; an empty set for a route that takes all methods. */
function routes(...routers: Pick<Router, 'stack'>[]): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { path, methods } of routers.flatMap(({ stack }) => stack)) {
    const template = String(path).replaceAll(/:(\w+)/g, '{$1}');
    const own = found.get(template) ?? new Set();
    // A route for all methods only rejects the methods without a route of their own.
    if (methods.length <= 2) for (const method of methods) own.add(method.toLowerCase());
    found.set(template, own);
  }
  return found;
}

function described(server: (typeof servers)[keyof typeof servers]): [string, string[]][] {
  return Object.entries(openApi.paths)
    .filter(([, item]) => item.servers.includes(server))
    .filter(([path]) => !STATIC.includes(path) || (server === servers.admin && path === '/'))
    .map(([path, item]) => [path, Object.keys(item).filter((name) => /^(get|head|post|put|patch|delete)$/.test(name))]);
}

describe('The routes', () => {
  it('of service B are those of the contract', () => {
    const real = routes(
      authRouter(nothing),
      eventsRouter(nothing),
      actionsRouter(nothing),
      tasksRouter(nothing),
      queueRouter(nothing),
      queueStatusRouter(nothing),
      deadLettersRouter(nothing),
    );
    const contract = described(servers.tasks);
    expect(new Map(contract.map(([path, methods]) => [path, new Set(methods)]))).to.deep.equal(real);
  });

  it('of the admin listener are those of the contract', () => {
    const contract = described(servers.admin);
    const real = routes(indexRouter(), adminRouter({ checks: {} } as never));
    expect(new Map(contract.map(([path, methods]) => [path, new Set(methods)]))).to.deep.equal(real);
  });

  it('of service A are those of the contract', () => {
    const real = routes(authRouter(nothing), wsRouter(nothing), pricesRouter(nothing));
    // The single route takes every method and rejects all but GET.
    real.get('/ws/ticker')?.add('get');
    const contract = described(servers.ticker);
    expect(new Map(contract.map(([path, methods]) => [path, new Set(methods)]))).to.deep.equal(real);
  });
});
