/** Limits of the effects on neighbours during an attack, and of the resources in use after it. */
export interface Bounds {
  /** Longest time from a tick's due time to its arrival. */
  tickMs: number;
  /** Longest time of a health response. */
  healthMs: number;
  /** Growth of the peak resident memory during the attack, in MiB. */
  peakMib: number;
  /**
   * Objects and buffers that the process keeps by design after the attack, in MiB, in addition to {@link LEFT_SHARE}.
   */
  keptMib: number;
  /** Whether submissions of neighbours may be refused or fail, because the scenario fills the queue or stops the process. */
  refusals: boolean;
  /** Whether streams of neighbours may be closed, because the scenario stops the process. */
  disconnections: boolean;
}

/** Allowed growth of objects and buffers, as a share of their size at the start. */
export const LEFT_SHARE = 0.2;

/**
 * Allowed growth of the resident memory since the start of the process, in MiB, in addition to that of objects and buffers. Allocators
 * do not return all pages, so the memory of bodies (64 MiB), responses (128 MiB) and the thread that parses bodies (64 MiB) may stay
 * resident, once, with a quarter of it for garbage. So may 64 MiB of garbage in each of the two task threads, which collect garbage
 * only when they allocate.
 */
export const RESIDENT_MIB = 448;

export const usualBounds: Bounds = {
  tickMs: 100,
  healthMs: 250,
  // Twice the budgets of request and response bodies (64 and 128 MiB), for garbage that is not collected yet.
  peakMib: 384,
  keptMib: 0,
  refusals: false,
  disconnections: false,
};

/** Bounds for hundreds of connections that send data whose parsing takes tens of milliseconds a packet. */
export const floodBounds: Partial<Bounds> = { tickMs: 250, healthMs: 500 };

/** Bounds for a process that is stopped or killed during the scenario. */
export const stopBounds: Partial<Bounds> = {
  tickMs: Number.POSITIVE_INFINITY,
  healthMs: Number.POSITIVE_INFINITY,
  refusals: true,
  disconnections: true,
};
