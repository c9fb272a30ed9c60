import { SourceCount } from '../../workers/messages.ts';
import { RepeatLimit } from '../log/repeat-limit.ts';
import type { Log } from '../log.ts';

const MAX_OUTPUT_CHARACTERS = 8192;

/** Status of the price source, as reported by the ticker thread. */
export class SourceStatus {
  /** Counters that the ticker thread increments, indexed by {@link SourceCount}. */
  readonly memory = new SharedArrayBuffer(SourceCount.count * Float64Array.BYTES_PER_ELEMENT);
  readonly #source: string | undefined;
  readonly #log: Log;
  readonly #infoLimit = new RepeatLimit();
  #problem: string | undefined;

  constructor(source: string | undefined, log: Log) {
    this.#source = source;
    this.#log = log;
  }

  /** Undefined if the price source works. */
  get problem(): string | undefined {
    return this.#problem;
  }

  get counts(): { failed: number; stalled: number; refused: number } {
    const [failed = 0, stalled = 0, refused = 0] = new Float64Array(this.memory);
    return { failed, stalled, refused };
  }

  onProblem(problem: string | undefined): void {
    const source = this.#source;
    this.#problem = problem;
    if (problem === undefined) this.#logRecovery();
    else this.#log.warn({ source, problem }, 'the price source fails: the last prices are kept');
  }

  onOutput(text: string): void {
    const source = this.#source;
    const isAdmitted = this.#infoLimit.admit('output', (suppressed) =>
      this.#log.warn({ source, suppressed }, 'output of the price source was suppressed'),
    );
    if (isAdmitted) this.#log.info({ source }, text.trimEnd().slice(0, MAX_OUTPUT_CHARACTERS));
  }

  #logRecovery(): void {
    const source = this.#source;
    const recovered = 'the price source has recovered';
    const isAdmitted = this.#infoLimit.admit('recovery', (suppressed) =>
      this.#log.info({ source, suppressed, repeated: recovered }, 'repeated log lines were left out'),
    );
    if (isAdmitted) this.#log.info({ source }, recovered);
  }

  onExit(): void {
    this.#problem = undefined;
  }
}
