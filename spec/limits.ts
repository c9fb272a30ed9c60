/**
 * How large and how slow the project may become. A limit is raised only for the reason beside it, in the change that
 * needs it.
 */
export const limits = {
  /** Lines of `main`, `workers` and `db`, without dashboards. For a feature that users get, or a defect that they met. */
  programLines: 22_083,
  /** Lines of `spec`, without lock files. For a rule that nothing asserted before. */
  specLines: 36_000,
  /** Lines of the two pages and of their shared folder. For a feature that users see. */
  pageLines: 9_500,
  /** Duration of `npm test` / duration of `calibration.ts`. For a rule that can be asserted only by real processes. */
  testTime: 80,
};
