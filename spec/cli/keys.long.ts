import { itRefuses } from './keys-program.ts';

describe('the program of the keys, with other wrong arguments', () => {
  itRefuses([
    [['remove'], 'unknown command "remove"'],
    [['list', '7'], /^Unexpected argument '7'/],
    [['create', '--user'], /argument missing$/],
    [['create', '--user', '-x'], /^Option '--user' argument is ambiguous\. /],
    [['create', '--user', ''], '--user must not be empty'],
    [['create', '--user', ' \u{a0}'], '--user must not be empty'],
    [['create', '--user', 'a\nb'], '--user must hold no control characters'],
    [['create', '--user', 'a', '--role', ''], '--role must not be empty'],
    [['create', '--user', 'a', '--role', '\u{85}a'], '--role must hold no control characters'],
    [['create', '--user', 'a'.repeat(129)], '--user must have 128 characters at most'],
    [['create', '--user', 'a', 'b'], /^Unexpected argument 'b'/],
    [['revoke'], 'the id of a key is missing'],
    [['revoke', '1', '2'], 'revoke takes one id'],
    [['revoke', '0'], 'the id of a key is a whole number, got "0"'],
    [['revoke', '1.5'], 'the id of a key is a whole number, got "1.5"'],
    [['revoke', '--', '-1'], 'the id of a key is a whole number, got "-1"'],
  ]);
});
