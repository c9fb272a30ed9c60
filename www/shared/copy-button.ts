/**
 * Makes `button` copy a text to the clipboard and show whether copying succeeded.
 *
 * @param source element to select if clipboard access is denied
 * @param text returns the text to copy; default: the text of `source`
 */
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

async function copy(text: string, source: HTMLElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(source);
    return false;
  }
}
