import { type ComponentChildren, render } from 'preact';

/** Returns the element with `data-part="<name>"` in `root`. @throws {Error} if no such element is a `type` */
export function part<T extends Element>(root: ParentNode, name: string, type: abstract new () => T): T {
  const found = root.querySelector(`[data-part="${name}"]`);
  if (found instanceof type) return found;
  throw new Error(`the page has no ${type.name} marked as ${name}`);
}

/** Renders a view in place of the content of the part `name`. */
export function mount(view: ComponentChildren, name: string): void {
  const host = part(document, name, HTMLElement);
  host.replaceChildren();
  render(view, host);
}
