import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectFolder } from '../support/program.ts';

export const deployment = join(projectFolder, 'main/deployment');
export const dashboard = JSON.parse(readFileSync(join(deployment, 'grafana/dashboard.json'), 'utf8'));
const rules = parse(readFileSync(join(deployment, 'alerts.yml'), 'utf8'));

export interface Alert {
  alert: string;
  expr: string;
  labels: { severity: string };
  annotations: { summary: string; runbook: string };
}
export const alerts: Alert[] = rules.groups.flatMap((group: { rules: Alert[] }) => group.rules);

/** Queries of all panels, for every instance and with a window short enough for a few scrapes. */
export const panelQueries: { expr: string; legend: string }[] = dashboard.panels.flatMap(
  ({ targets = [] }: { targets?: { expr: string; legendFormat: string }[] }) =>
    targets.map(({ expr, legendFormat: legend }) => ({
      expr: expr.replaceAll('$__rate_interval', '10s').replaceAll('$instance', '.*'),
      legend,
    })),
);

export interface Selector {
  metric: string;
  matchers: { label: string; operator: string; value: string }[];
}

/** Returns the selectors and the grouping labels of a valid PromQL query. */
export function read(expr: string): { selectors: Selector[]; grouping: string[] } {
  const grouping = [...expr.matchAll(/\bby \((.*?)\)/g)].flatMap(([, labels = '']) => labels.split(', '));
  // Names that no parenthesis follows: those of functions and aggregations have one.
  const names = /\b(?!(?:and|or|unless)\b)([a-z]\w*)\b(?:\{(.*?)\})?(?!\s*\()/g;
  const selectors = Array.from(
    expr.replaceAll(/\bby \(.*?\)/g, '').matchAll(names),
    ([, metric = '', braces = '']) => ({
      metric,
      matchers: Array.from(braces.matchAll(/(\w+)(=~|=)"(.*?)"/g), ([, label = '', operator = '', value = '']) => {
        return { label, operator, value };
      }),
    }),
  );
  return { selectors, grouping };
}
