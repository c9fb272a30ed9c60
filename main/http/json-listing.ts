import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';

/**
 * The body `{[name]: [...], count}` of a listing, an item at a time, as fast as the client reads it: a hundred of the
 * largest items are hundreds of megabytes, which would hold everybody up and fill the memory.
 *
 * @param read gives the item of each key; one that is gone by now is left out
 */
export function streamListing<Key>(
  name: string,
  keys: Iterable<Key>,
  read: (key: Key) => object | undefined,
): Readable {
  return Readable.from(listingText(name, keys, read));
}

async function* listingText<Key>(name: string, keys: Iterable<Key>, read: (key: Key) => object | undefined) {
  let count = 0;
  for (const key of keys) {
    const item = read(key);
    if (item === undefined) continue;
    yield `${count++ === 0 ? `{"${name}":[` : ','}${JSON.stringify(item)}`;
    // Others have their turn between two items, even if this client takes them as fast as they come.
    await setImmediate();
  }
  yield count === 0 ? `{"${name}":[],"count":0}` : `],"count":${count}}`;
}
