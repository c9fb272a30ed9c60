/** Settings of an action in the handlers module, as plain data. */
export interface ActionSettings {
  schema?: object;
  timeoutMs?: number;
  maxAttempts?: number;
}

/** Settings of each action in the handlers module. The main thread never imports the module. */
export type HandlersManifest = ReadonlyMap<string, ActionSettings>;

export interface SubmissionRules {
  actions: HandlersManifest;
  /** Whether to refuse a task whose action is neither in `actions` nor built-in. */
  rejectUnknown: boolean;
}

/** `workerData` of the thread that checks a handlers module. `module` is a path or package name. */
export interface HandlersCheckStart {
  module: string;
}

/** Report of the thread that checks a handlers module. `failure` is a single line. */
export type HandlersReport = { manifest: HandlersManifest } | { failure: string };
