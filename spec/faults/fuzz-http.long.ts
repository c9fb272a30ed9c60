import { describeMalformedHttp } from './malformed-http.ts';

describeMalformedHttp(600);
