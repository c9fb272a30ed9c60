import { extname } from 'node:path';
import type { SubmissionRules } from '../../workers/handlers-manifest.ts';
import type { TickerSymbol } from '../../workers/symbols.ts';
import { runOneShotThread } from '../one-shot-thread.ts';

/** `workerData` of the thread that creates the documents. */
export interface DocumentsStart {
  rules: SubmissionRules;
  symbols: readonly TickerSymbol[];
}

/** The OpenAPI and AsyncAPI documents as JSON texts. */
export interface ContractDocuments {
  openApi: string;
  asyncApi: string;
}

const THREAD_FILE = new URL(`documents-thread${extname(import.meta.filename)}`, import.meta.url);
const TIME_LIMIT_MS = 60_000;
const MEMORY_MB = 256;

/**
 * Returns a function that returns the documents. The first call creates them in a thread, because loading the modules
 * of the contracts blocks the thread that does it for 0.3 s. Rejects if that fails; the next call then tries again.
 */
export function contractDocuments(start: DocumentsStart): () => Promise<ContractDocuments> {
  let documents: Promise<ContractDocuments> | undefined;
  return () => {
    documents ??= runOneShotThread<ContractDocuments>(THREAD_FILE, {
      workerData: start,
      timeLimitMs: TIME_LIMIT_MS,
      memoryMb: MEMORY_MB,
    }).catch((cause) => {
      documents = undefined;
      throw new Error(`the API documents cannot be created: ${cause.message}`, { cause });
    });
    return documents;
  };
}
