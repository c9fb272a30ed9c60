import type Router from '@koa/router';
import { builtInActions } from '../../../workers/actions.ts';
import type { SubmissionRules } from '../../../workers/handlers-manifest.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { replyJson } from '../../http/json-reply.ts';
import { type AccessState, authorize } from './access.ts';

/** Routes `GET /actions`, which lists all actions with a handler and the JSON Schema of each action's data. */
export function actionsRouter({ rules }: { rules: SubmissionRules }): Router<AccessState> {
  const router = exactRouter<AccessState>();

  router.get('/actions', (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const { actions, rejectUnknown } = rules;
    const names = new Set([...builtInActions, ...actions.keys()]);
    const listed = [...names].map((name) => ({ name, schema: actions.get(name)?.schema }));
    replyJson(ctx, 200, { actions: listed, unknown_actions: rejectUnknown ? 'reject' : 'process' });
  });

  router.all('/actions', answerOtherMethods('GET', 'HEAD'));

  return router;
}
