/** Returns the element with `data-part="<name>"` in `root`. @throws {Error} if no such element is a `type` */
export function part<T extends Element>(root: ParentNode, name: string, type: abstract new () => T): T {
  const found = root.querySelector(`[data-part="${name}"]`);
  if (found instanceof type) return found;
  throw new Error(`the page has no ${type.name} marked as ${name}`);
}

/** Returns a copy of the element in the HTML template `name`. @throws {Error} if the template is missing or empty */
export function stamp(name: string): HTMLElement {
  const { content } = part(document, name, HTMLTemplateElement);
  const copy = content.firstElementChild?.cloneNode(true);
  if (copy instanceof HTMLElement) return copy;
  throw new Error(`the template ${name} is empty`);
}
