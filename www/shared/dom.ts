/** Returns the element with `data-part="<name>"` in `root`. @throws {Error} if no such element is a `type` */
export function part<T extends Element>(root: ParentNode, name: string, type: abstract new () => T): T {
  const found = root.querySelector(`[data-part="${name}"]`);
  if (found instanceof type) return found;
  throw new Error(`the page has no ${type.name} marked as ${name}`);
}
