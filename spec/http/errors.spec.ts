import { expect } from 'chai';
import { type ErrorName, HttpError } from '../../main/http/errors.ts';

describe('the error catalogue', () => {
  const specified: [error: ErrorName, status: number, text: string][] = [
    ['invalidJson', 400, 'invalid JSON'],
    ['apiKeyRequired', 400, 'api_key required'],
    ['actionRequired', 400, 'action required'],
    ['invalidApiKey', 401, 'invalid API key'],
    ['authenticationRequired', 401, 'authentication required'],
    ['methodNotAllowed', 405, 'method not allowed'],
    ['databaseUnavailable', 500, 'database unavailable'],
    ['lookupFailed', 500, 'lookup failed'],
    ['tokenStoreUnavailable', 500, 'token store unavailable'],
    ['tokenCreationFailed', 500, 'token creation failed'],
    ['failedToCreateHandler', 500, 'failed to create handler'],
    ['failedToQueueTask', 500, 'failed to queue task'],
    ['queryFailed', 500, 'query failed'],
    ['bodyTooLarge', 413, 'request body too large'],
    ['upgradeRequired', 426, 'upgrade required'],
    ['notFound', 404, 'not found'],
    ['tooManyConnections', 503, 'too many connections'],
    ['tooManyConnectionsFromAddress', 429, 'too many connections from this address'],
    ['dataMustBeObject', 400, 'data must be an object'],
  ];
  for (const [error, status, text] of specified) {
    it(`has ${status} ${text}`, () => {
      expect(new HttpError(error)).to.deep.include({ status, message: text, headers: {}, overload: false });
    });
  }

  it('lets an error carry its cause and further headers', () => {
    const cause = new Error('underneath');
    const error = new HttpError('lookupFailed', { cause, headers: { 'Retry-After': '1' }, overload: true });
    expect(error).to.deep.include({ cause, headers: { 'Retry-After': '1' }, overload: true });
    expect(error).to.be.instanceOf(Error);
    expect(error.name).to.equal('HttpError');
  });
});
