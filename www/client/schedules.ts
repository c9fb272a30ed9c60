import type { Abortable, HttpClient } from './http-client.ts';

/** Settings of a schedule. */
export interface ScheduleSettings {
  cron: string;
  time_zone?: string;
  action: string;
  data?: Record<string, unknown>;
  priority?: number;
  limit_key?: string;
  callback_url?: string;
  catch_up?: 'none' | 'one' | 'all';
  overlap?: 'allow' | 'skip';
  paused?: boolean;
}

type OptionalSetting = 'limit_key' | 'callback_url';

/** Schedule with its next times and its last one. Times are Unix seconds. */
export interface Schedule
  extends Required<Omit<ScheduleSettings, OptionalSetting>>,
    Pick<ScheduleSettings, OptionalSetting> {
  name: string;
  source: 'api' | 'module';
  next: number[];
  last_at?: number;
  last_task?: string;
}

export type Schedules = ReturnType<typeof schedules>;

/** Requests about schedules. */
export function schedules(http: HttpClient) {
  const pathOf = (name: string) => `schedules/${encodeURIComponent(name)}`;
  return {
    list: async (options?: Abortable) =>
      (await http.request<{ schedules: Schedule[] }>('schedules', options)).schedules,
    get: (name: string, options?: Abortable) => http.request<Schedule>(pathOf(name), options),
    /** Adds or replaces a schedule. */
    put: (name: string, settings: ScheduleSettings, options?: Abortable) =>
      http.request<Schedule>(pathOf(name), { ...options, method: 'PUT', body: settings }),
    /** Makes a task now. @returns its id */
    run: async (name: string, options?: Abortable) =>
      (await http.request<{ id: string }>(`${pathOf(name)}/run`, { ...options, method: 'POST' })).id,
    delete: (name: string, options?: Abortable) => http.request<void>(pathOf(name), { ...options, method: 'DELETE' }),
  };
}
