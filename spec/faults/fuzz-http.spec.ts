import { describeMalformedHttp } from './malformed-http.ts';

describeMalformedHttp(Number(process.env.FUZZ_RUNS ?? 60));
