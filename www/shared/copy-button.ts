/** Makes `button` copy a text to the clipboard, or select `source` if clipboard access is denied. */
export function makeCopyButton(
  button: HTMLButtonElement,
  source: HTMLElement,
  text: () => string = () => source.textContent,
): void {
  const label = button.textContent;
  let timer: ReturnType<typeof setTimeout> | undefined;
  button.addEventListener('click', async () => {
    button.textContent = (await copy(text(), source)) ? 'Copied' : 'Selected: press Ctrl+C';
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = label;
    }, 2_000);
  });
}

/** Copies a text to the clipboard. @returns false if access is denied and `source` is selected instead */
export async function copy(text: string, source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
