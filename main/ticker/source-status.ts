import { RepeatLimit } from '../../workers/shared/repeat-limit.ts';
import { SourceCount } from '../../workers/ticker/messages.ts';
import type { Log } from '../log/log.ts';

const MAX_OUTPUT_CHARACTERS = 8192;
const RECOVERED = 'the price source has recovered';

/** Status of the price source, as reported by the ticker thread. */
export class SourceStatus {
  /** Counters that the ticker thread increments, indexed by {@link SourceCount}. */
  readonly memory = new SharedArrayBuffer(SourceCount.count * Float64Array.BYTES_PER_ELEMENT);
  readonly #log: Log;
  readonly #infoLimit = new RepeatLimit();
  /** Undefined if the price source works. */
  problem: string | undefined;

  constructor(source: string | undefined, log: Log) {
    this.#log = log.child({ source });
  }

  get counts(): { failed: number; stalled: number; refused: number } {
    const [failed = 0, stalled = 0, refused = 0] = new Float64Array(this.memory);
    return { failed, stalled, refused };
  }

  onProblem(problem: string | undefined): void {
    this.problem = problem;
    if (problem !== undefined) {
      this.#log.warn({ problem }, 'the price source fails: the last prices are kept');
      return;
    }
    const reportSuppressed = (suppressed: number) =>
      this.#log.info({ suppressed, repeated: RECOVERED }, 'repeated log lines were left out');
    if (this.#infoLimit.admit('recovery', reportSuppressed)) this.#log.info(RECOVERED);
  }

  onOutput(text: string): void {
    const reportSuppressed = (suppressed: number) =>
      this.#log.warn({ suppressed }, 'output of the price source was suppressed');
    if (this.#infoLimit.admit('output', reportSuppressed))
      this.#log.info(text.trimEnd().slice(0, MAX_OUTPUT_CHARACTERS));
  }
}
