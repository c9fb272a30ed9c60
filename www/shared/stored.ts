type StorageName = 'localStorage' | 'sessionStorage';

/** Returns a stored value, or undefined if there is none or the browser blocks the storage. */
export function readStored(storage: StorageName, key: string): unknown {
  try {
    return JSON.parse(window[storage].getItem(key) ?? '');
  } catch {
    return undefined;
  }
}

/** Stores a value, or removes the stored one if it is undefined. */
export function store(storage: StorageName, key: string, value: unknown): void {
  try {
    if (value === undefined) window[storage].removeItem(key);
    else window[storage].setItem(key, JSON.stringify(value));
  } catch {
    // The browser blocks storage, so the value lasts only until the page is closed.
  }
}
