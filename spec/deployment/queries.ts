import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SyntaxNodeRef } from '@lezer/common';
import { parser } from '@prometheus-io/lezer-promql';
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

/** One metric of a query, with the matchers of its labels. */
export interface Selector {
  metric: string;
  matchers: { label: string; operator: string; value: string }[];
}

/** Parses a PromQL query. @throws {Error} if it is not valid PromQL */
export function read(expr: string): { selectors: Selector[]; grouping: string[] } {
  const selectors: Selector[] = [];
  const grouping: string[] = [];
  const text = ({ from, to }: SyntaxNodeRef) => expr.slice(from, to);
  parser.parse(expr).iterate({
    enter(node) {
      if (node.type.isError) throw new Error(`PromQL breaks off at ${node.from}: ${expr}`);
      if (node.name === 'Identifier') selectors.push({ metric: text(node), matchers: [] });
      if (node.name === 'LabelName' && node.node.parent?.name === 'GroupingLabels') grouping.push(text(node));
      if (node.name === 'UnquotedLabelMatcher') {
        const [, label = '', operator = '', value = ''] = /^(\w+)(=~|!~|!=|=)"(.*)"$/.exec(text(node)) ?? [];
        selectors.at(-1)?.matchers.push({ label, operator, value });
      }
    },
  });
  return { selectors, grouping };
}
