/** Settings of an action in the handlers module, as plain data. */
export interface ActionSettings {
  /** JSON Schema of the action's data. */
  schema?: object;
  /** Time limit of an attempt in milliseconds. */
  timeoutMs?: number;
  maxAttempts?: number;
}

/** Settings of each action in the handlers module. The main thread uses this manifest and never imports the module. */
export type HandlersManifest = ReadonlyMap<string, ActionSettings>;

/** Rules that a submission is checked against. */
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
