import type { Grant } from '../../www/client/credentials.ts';
import { ServiceError } from '../../www/client/errors.ts';
import { TaskClient } from '../../www/client/task-client.ts';
import { HttpError } from '../http/errors.ts';
import type { Services } from './start-services.ts';

/** Returns clients of the services of this process, which send nothing over HTTP and need no token. */
export function localClients<Own>({ tasks, ticker }: Pick<Services, 'tasks' | 'ticker'>) {
  const { prices, history } = ticker.prices;
  return {
    // The host is not used.
    tasks: new TaskClient<Own>('http://localhost', { fetch: tasks.fetch }),
    ticker: { prices, history: (options?: Parameters<typeof history>[0]) => history(options).catch(asServiceError) },
    tokens: {
      async issue(user_id: string, role = 'user'): Promise<Grant> {
        if (typeof user_id !== 'string' || !/^.{1,128}$/.test(user_id))
          throw new TypeError('the user id must be a text of 1 to 128 characters in one line');
        const token = await ticker.issueToken({ user_id, role }).catch(asServiceError);
        return { token, expires_in: ticker.tokens.lifetimeSeconds };
      },
    },
  };
}

function asServiceError(error: unknown): never {
  if (!(error instanceof HttpError)) throw error;
  throw new ServiceError(error.status, { error: error.message, ...error.fields });
}
