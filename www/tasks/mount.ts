import { type ComponentChild, render } from 'preact';

/** Renders a view in place of the content of `host`. */
export function mount(view: ComponentChild, host: Element): void {
  host.replaceChildren();
  render(view, host);
}
