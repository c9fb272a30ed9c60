import fc from 'fast-check';
import { type Sending, sendings } from '../../support/http-corpus.ts';
import { checkAnswers, exchange } from '../../support/http-exchange.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';

const CHUNK = 50;

const fuzzes = (service: 'ticker' | 'tasks') => async (attacker: Attacker) => {
  let samples: Sending[] = [];
  let { seed } = attacker;
  await attacker.repeat(4, async () => {
    if (samples.length === 0) samples = fc.sample(sendings, { seed: seed++, numRuns: CHUNK });
    checkAnswers(await exchange(attacker.mark.ports[service], samples.pop() as Sending));
    attacker.sent();
    attacker.got('proper');
  });
};

export const fuzz = {
  'fuzzed-requests-ticker': { attack: fuzzes('ticker') },
  'fuzzed-requests-tasks': { attack: fuzzes('tasks') },
} satisfies Scenarios;
