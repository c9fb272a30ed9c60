import { afterTest } from '../../support/cleanup.ts';

/** Parts of a browser's page that a spec controls. */
export interface ImitatedPage {
  /** Hides or shows the page. */
  setVisible(isVisible: boolean): void;
}

/** Defines the globals of a visible page until the end of the test. */
export function imitatePage(): ImitatedPage {
  let visibilityState = 'visible';
  const document = Object.defineProperty(new EventTarget(), 'visibilityState', { get: () => visibilityState });
  replaceGlobal('document', document);
  return {
    setVisible(isVisible) {
      visibilityState = isVisible ? 'visible' : 'hidden';
      document.dispatchEvent(new Event('visibilitychange'));
    },
  };
}

/** Replaces a global until the end of the test. */
export function replaceGlobal(name: string, value: unknown): void {
  const original = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  afterTest(() => {
    if (original === undefined) Reflect.deleteProperty(globalThis, name);
    else Object.defineProperty(globalThis, name, original);
  });
}
