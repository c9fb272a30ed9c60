/** One-shot worker thread that loads a price source, without calling its functions, and reports whether it loads. */
import { workerData } from 'node:worker_threads';
import { reportCheck } from '../shared/user-module.ts';
import { openPriceSource } from './open-price-source.ts';

const { source, symbols } = workerData;

reportCheck(async () => void (await openPriceSource({ source, symbols, seed: undefined, intervalMs: 1000 })));
