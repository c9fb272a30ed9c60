/**
 * Makes `button` copy the text of `source` to the clipboard and show whether that succeeded.
 *
 * @param read returns the text to copy, if `source` shows only a part of it
 */
export function makeCopyButton(
  button: HTMLButtonElement,
  source: HTMLElement,
  read: () => string = () => source.textContent,
): void {
  const label = button.textContent;
  let timer: ReturnType<typeof setTimeout> | undefined;
  button.addEventListener('click', async () => {
    button.textContent = (await copy(source, read())) ? 'Copied' : 'Selected: press Ctrl+C';
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = label;
    }, 2_000);
  });
}

/**
 * Copies `text`, or selects the text of `source` if clipboard access is denied.
 *
 * @returns whether the text was copied
 */
async function copy(source: HTMLElement, text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
