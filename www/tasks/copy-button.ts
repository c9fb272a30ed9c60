/** Makes `button` copy the text of `source` to the clipboard and show whether that succeeded. */
export function makeCopyButton(button: HTMLButtonElement, source: HTMLElement): void {
  const label = button.textContent;
  let timer: ReturnType<typeof setTimeout> | undefined;
  button.addEventListener('click', async () => {
    button.textContent = (await copy(source)) ? 'Copied' : 'Selected: press Ctrl+C';
    clearTimeout(timer);
    timer = setTimeout(() => {
      button.textContent = label;
    }, 2_000);
  });
}

/**
 * Copies the text of `source`, or selects the text if clipboard access is denied.
 *
 * @returns whether the text was copied
 */
async function copy(source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
