import { builtInActions } from './actions.ts';
import { compileSchema, needsTimeLimit } from './data-schemas.ts';
import type { SubmissionRules } from './handlers-manifest.ts';
import { DEFERRED, type MainThreadCheck, type SubmissionCheck } from './parse-submission.ts';

/** Combines the rules into a check. @throws {Error} if a schema does not compile */
export function submissionCheck({ actions, rejectUnknown }: SubmissionRules): SubmissionCheck {
  const known = new Set([...builtInActions, ...actions.keys()]);
  const withSchema = [...actions].filter(([, { schema }]) => schema !== undefined);
  const checks = new Map(withSchema.map(([action, { schema }]) => [action, compileSchema(schema as object)]));
  return (action, data) => {
    if (rejectUnknown && !known.has(action)) return { error: 'unknownAction' };
    const field = checks.get(action)?.(data);
    return field && { error: 'invalidData', field };
  };
}

/** Returns the actions with a schema that needs a time limit for checks. */
export function timeLimitedActions({ actions }: SubmissionRules): ReadonlySet<string> {
  const limited = [...actions].filter(([, { schema }]) => schema !== undefined && needsTimeLimit(schema));
  return new Set(limited.map(([action]) => action));
}

/** Like {@link submissionCheck}, but the check returns `DEFERRED` for actions whose schema can be slow to check. */
export function mainThreadCheck(rules: SubmissionRules): MainThreadCheck {
  const limited = timeLimitedActions(rules);
  const others = new Map([...rules.actions].filter(([action]) => !limited.has(action)));
  const check = submissionCheck({ ...rules, actions: others });
  return (action, data) => (limited.has(action) ? DEFERRED : check(action, data));
}
