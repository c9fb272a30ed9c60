/** One-shot thread that creates the OpenAPI and AsyncAPI documents. */
import { parentPort, workerData } from 'node:worker_threads';
import type { OneShotReport } from '../../workers/messages.ts';
import { jsonText } from '../http/json-reply.ts';
import { describeActions } from './action-schemas.ts';
import { asyncApi } from './asyncapi.ts';
import type { ContractDocuments, DocumentsStart } from './documents.ts';
import { openApi } from './openapi.ts';

const { reportId, rules, symbols } = workerData as DocumentsStart & Pick<OneShotReport, 'reportId'>;
const report: ContractDocuments = {
  openApi: jsonText(describeActions(openApi, rules)),
  asyncApi: jsonText(asyncApi(symbols)),
};
parentPort?.postMessage({ reportId, report } satisfies OneShotReport);
