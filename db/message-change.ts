import { historyText, PROCESS_DIED, readHistory, withAttempt } from './attempt-history.ts';
import { type Delivery, type Settled, SUSPECT_DEATHS } from './task-store.ts';

/** Change of a running message that stays in the queue. Absent fields keep their values. */
export interface MessageChange {
  delivery: Pick<Delivery, 'arrival' | 'delivery'>;
  state: 'waiting' | 'retrying' | 'failed';
  runAt?: number;
  attempts?: number;
  crashes?: number;
  deaths?: number;
  reason?: string;
  history?: string | null;
  isPermanent?: boolean;
}

/** A running message whose process has died. */
export interface LostMessage extends Pick<Delivery, 'arrival' | 'delivery' | 'crashes' | 'id'> {
  action: string | null;
  attempts: number;
  deaths: number;
  history: string | null;
  isCancelRequested: boolean;
}

/** Reason of a dead letter whose processes died again and again. */
export const EXHAUSTED = `${PROCESS_DIED}, and no attempt is left`;

/** Returns the change of a message by a retry, release or discard. */
export function changeOf({ delivery, settlement }: Settled, now: number): MessageChange {
  if (settlement.kind !== 'retry' && settlement.kind !== 'discard') return { delivery, state: 'waiting' };
  const { attempt: attempts, crashes, history } = delivery;
  const { reason, failure } = settlement;
  const charged = {
    ...{ delivery, attempts, crashes: crashes + Number(failure === 'crash'), reason },
    history: historyText(withAttempt(history, now, reason)),
  };
  if (settlement.kind === 'discard') return { ...charged, state: 'failed', isPermanent: failure === 'permanent' };
  // An attempt that ends clears the deaths.
  const { runAt } = settlement;
  return { ...charged, state: runAt > now ? 'retrying' : 'waiting', runAt, deaths: 0 };
}

/** Returns the change of a message by the death of its process. The death of a suspect is a crash. */
export function deathOf(lost: LostMessage, now: number): MessageChange {
  const { attempts, crashes, deaths, history, isCancelRequested, ...delivery } = lost;
  if (deaths < SUSPECT_DEATHS || isCancelRequested) return { delivery, state: 'waiting', deaths: deaths + 1 };
  return {
    ...{ delivery, state: 'failed', attempts: attempts + 1, crashes: crashes + 1, deaths: deaths + 1 },
    reason: EXHAUSTED,
    history: historyText(withAttempt(readHistory(history), now, PROCESS_DIED)),
  };
}
