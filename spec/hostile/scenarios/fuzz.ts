import fc from 'fast-check';
import { sendings } from '../../support/http-corpus.ts';
import { checkAnswers, exchange } from '../../support/http-exchange.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenario } from '../scenario.ts';

/** Number of samples generated at a time. */
const CHUNK = 50;

const fuzzes = (service: 'ticker' | 'tasks') => async (attacker: Attacker) => {
  for (let chunk = 0; !attacker.over; chunk++) {
    const samples = fc.sample(sendings, { seed: attacker.seed + chunk, numRuns: CHUNK });
    const client = async () => {
      for (let pieces = samples.pop(); pieces !== undefined && !attacker.over; pieces = samples.pop()) {
        checkAnswers(await exchange(attacker.mark.ports[service], pieces));
        attacker.sent();
        attacker.got('proper');
      }
    };
    await Promise.all(Array.from({ length: 4 }, client));
  }
};

export const fuzz: readonly Scenario[] = [
  { name: 'fuzzed-requests-ticker', attack: fuzzes('ticker') },
  { name: 'fuzzed-requests-tasks', attack: fuzzes('tasks') },
];
