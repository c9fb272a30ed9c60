import type { Abortable, HttpClient } from './http-client.ts';

/** Limit on the tasks that run at once, or start in a period. */
export interface Limit {
  concurrency?: number;
  rate?: { count: number; seconds: number };
}

/** Limits of an action, and of each of its limit keys. */
export interface LimitSettings extends Limit {
  per_key?: Limit;
}

/** Limits of an action with their use. */
export interface ActionLimits extends LimitSettings {
  action: string;
  source: 'api' | 'module';
  running: number;
  next_start_at_ms?: number;
}

export type Limits = ReturnType<typeof limits>;

/** Requests about the limits of actions. */
export function limits(http: HttpClient) {
  const pathOf = (action: string) => `limits/${encodeURIComponent(action)}`;
  return {
    list: async (options?: Abortable) => (await http.request<{ limits: ActionLimits[] }>('limits', options)).limits,
    /** Replaces the limits of an action. */
    put: (action: string, settings: LimitSettings, options?: Abortable) =>
      http.request<ActionLimits>(pathOf(action), { ...options, method: 'PUT', body: settings }),
    delete: (action: string, options?: Abortable) =>
      http.request<void>(pathOf(action), { ...options, method: 'DELETE' }),
  };
}
