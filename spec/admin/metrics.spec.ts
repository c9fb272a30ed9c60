import { mock } from 'node:test';
import { expect } from 'chai';
import { Registry } from 'prom-client';
import type { Delivery } from '../../db/task-store.ts';
import { tasksMetrics } from '../../main/admin/metrics.ts';
import { ByteBudget } from '../../main/http/request-body.ts';
import { registerMetrics } from '../../main/metrics/metrics-table.ts';
import { RequestMetrics } from '../../main/metrics/request-metrics.ts';
import { DispatchMetrics } from '../../main/tasks/dispatch/dispatcher.ts';
import type { TasksService } from '../../main/tasks/service.ts';
import { Histogram, recordLoopDelay, TASK_DURATION_BOUNDS } from '../../workers/shared/histogram.ts';
import { newDelivery } from '../tasks/handlers/handling.ts';
import { startTasksServer } from '../tasks/http/tasks-server.ts';

describe('the metrics', () => {
  it('of the task service show the last counts of the queue, omitted before the first count, and the attempts of at most 100 actions', async () => {
    const { queue, submitTask, takeAll, settle } = await startTasksServer();
    const dispatched = new DispatchMetrics(['resize', ...Array.from({ length: 99 }, (_, n) => `a${n}`), 'beyond']);
    const budget = new ByteBudget(1);
    let problem: string | undefined;
    const sources = {
      ...{ queue, requests: new RequestMetrics(), bodies: budget, responses: budget, problem: () => problem },
      ...{ bounds: { maxLength: 100, maxBytes: 1000 }, scheduler: { count: 3, overdueMs: 1500 } },
      ...{ dispatcher: { metrics: dispatched }, events: { subscribers: 0 }, callbacks: { outcomes: [] } },
      pool: { threads: 3, busy: 1, durations: new Histogram(TASK_DURATION_BOUNDS) },
    };
    const registry = new Registry();
    registerMetrics(registry, tasksMetrics(sources as unknown as TasksService['metrics']));
    const expectLines = async (...lines: string[]) => {
      const text = await registry.metrics();
      for (const line of lines) expect(text).to.include(`\n${line}\n`);
      return text;
    };
    queue.lastCounts = undefined;
    const uncounted = await expectLines(
      ...['# TYPE tasks_queue_bytes gauge', 'tasks_paused 0', 'tasks_queue_file_failing 0'],
      ...['tasks_schedules 3', 'tasks_schedule_overdue_seconds 1.5'],
    );
    expect(uncounted).to.not.match(/^tasks_(queue_(bytes|length\{)|dead_letters )/m);
    const ids = [await submitTask(), await submitTask(), await submitTask(), await submitTask()];
    const [running] = await takeAll(2);
    // One task that is waiting, and one whose handler is ended.
    for (const id of [ids[2], ids[0]]) await queue.cancel(id as string);
    await settle(running as Delivery, { kind: 'cancel' });
    const { bytes } = await queue.counts();
    await queue.setPaused(true);
    problem = 'disk full';
    const failed = { kind: 'discard', reason: 'too large', failure: 'permanent' } as const;
    for (const action of ['resize', 'beyond', 'of a client', 'of a client']) {
      const attempt = { delivery: newDelivery('a', action), startedAt: 1000, endedAt: 3000 };
      dispatched.count({ ...attempt, settlement: failed }, 'discard');
      dispatched.count({ ...attempt, settlement: { kind: 'release' } }, 'release');
    }
    const counted = await expectLines(
      ...[`tasks_queue_bytes ${bytes}`, 'tasks_cancelled_total 2', 'tasks_paused 1', 'tasks_queue_file_failing 1'],
      ...['tasks_queue_length{state="waiting"} 1', 'tasks_queue_length{state="in_flight"} 1'],
      ...['tasks_dead_letters 0', 'tasks_dead_letters_evicted_total 0', 'tasks_pool_threads{state="idle"} 2'],
      'tasks_attempts_total{action="resize",outcome="failed"} 1',
      'tasks_attempts_total{action="resize",outcome="completed"} 0',
      'tasks_attempts_total{action="other",outcome="failed"} 3',
      'tasks_attempt_duration_seconds_sum{action="other"} 6',
    );
    expect(counted).to.not.include('beyond').and.not.include('of a client');
    queue.lastCounts = { ...(await queue.counts()), oldest: Date.now() + 3_600_000 };
    await expectLines('tasks_queue_oldest_age_seconds 0');
  });

  it('of the event loop delay are how late a timer fires, ten times a second, and stop with the service', () => {
    mock.timers.enable({ apis: ['setInterval'] });
    let now = 0;
    mock.method(performance, 'now', () => now);
    const { delays, stop } = recordLoopDelay();
    for (const ms of [100, 350, 99, 100]) {
      now += ms;
      mock.timers.tick(100);
    }
    stop();
    mock.timers.tick(100);
    expect(delays.cumulative()).to.include({ count: 4, sum: 0.25 });
  });
});
