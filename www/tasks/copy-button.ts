/** Has a button copy what `source` shows, and say whether that worked. */
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

/** Browsers give access to the clipboard on secure origins only; elsewhere the text is selected for the user. */
async function copy(source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
