import type Router from '@koa/router';
import { expect } from 'chai';
import { adminRouter, indexRouter } from '../../../main/admin/app.ts';
import { deadLettersRouter } from '../../../main/tasks/http/dead-letters-router.ts';
import { eventsRouter } from '../../../main/tasks/http/events-router.ts';
import { queueRouter } from '../../../main/tasks/http/queue-router.ts';
import { tasksRouter } from '../../../main/tasks/http/tasks-router.ts';
import { authRouter } from '../../../main/ticker/auth.ts';
import { pricesRouter } from '../../../main/ticker/prices.ts';
import { wsRouter } from '../../../main/ticker/ws-router.ts';
import { itemsOf, type ServiceName } from '../../support/contract.ts';

/** Paths of the static clients, which no router serves. The admin listener has a router for `/`. */
const STATIC = ['/', '/{path}'];
/** Options for a router of which the spec only reads the routes. */
const nothing = { queue: { store: {} } } as never;

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

function described(service: ServiceName): Map<string, Set<string>> {
  const own = itemsOf(service).filter(([path]) => !STATIC.includes(path) || (service === 'admin' && path === '/'));
  const methods = (item: object) => Object.keys(item).filter((name) => /^(get|head|post|put|patch|delete)$/.test(name));
  return new Map(own.map(([path, item]) => [path, new Set(methods(item))]));
}

describe('The routes', () => {
  it('of service B are those of the contract', () => {
    const real = routes(
      authRouter(nothing),
      eventsRouter(nothing),
      tasksRouter(nothing),
      queueRouter(nothing),
      deadLettersRouter(nothing),
    );
    expect(described('tasks')).to.deep.equal(real);
  });

  it('of the admin listener are those of the contract', () => {
    const real = routes(indexRouter(), adminRouter({ checks: {} } as never));
    expect(described('admin')).to.deep.equal(real);
  });

  it('of service A are those of the contract', () => {
    const real = routes(authRouter(nothing), wsRouter(nothing), pricesRouter(nothing));
    // The single route takes every method and rejects all but GET.
    real.get('/ws/ticker')?.add('get');
    expect(described('ticker')).to.deep.equal(real);
  });
});
