import type { Failure, Settlement, SettlementOf } from '../../db/task-store.ts';

export const output = (value: unknown) => JSON.stringify({ output: value });
export const complete = (value: unknown = 1): Settlement => ({ kind: 'complete', result: output(value) });
export const row = (value: unknown): Settlement => ({ kind: 'row', result: output(value) });
export const release: Settlement = { kind: 'release' };
export const ack: Settlement = { kind: 'ack' };
export const cancel: Settlement = { kind: 'cancel' };

export function retry(runAt: number, reason = 'it failed', failure: Failure = 'transient'): SettlementOf<'retry'> {
  return { kind: 'retry', runAt, reason, failure };
}

export function discard(reason = 'no', failure: Failure = 'permanent'): SettlementOf<'discard'> {
  return { kind: 'discard', reason, failure };
}
