// Creates elements. Values are always text nodes, never markup.

const presentNodes = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

/** An element. `props`: `on` has listeners, `key` identifies it for `paint`, others are attributes (true: present; false, null: absent). */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "key") element.dataset.key = value;
    else if (name === "value") element.value = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...presentNodes(children));
  return element;
}

/** Replaces the children of `root`; the new element with the key of the focused one gets the focus. */
export function paint(root, ...children) {
  const key = root.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  root.replaceChildren(...presentNodes(children));
  if (key !== undefined) focusKey(root, key);
}

export function focusKey(root, key) {
  const element = root.querySelector(`[data-key="${CSS.escape(key)}"]`);
  element?.focus({ preventScroll: true });
  return element;
}

export const $ = (id) => document.getElementById(id);

let liveRegion = 0; // index of the region that has the last sentence

/** Announces a sentence to screen readers, by two live regions in turn so that a repeated sentence is announced again. */
export function announce(sentence) {
  const regions = [$("live-a"), $("live-b")];
  regions[liveRegion].textContent = "";
  liveRegion = 1 - liveRegion;
  regions[liveRegion].textContent = sentence;
}

/** Copies text and confirms it on the button for a moment. */
export async function copy(text, button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    announce("Copied");
  } catch {
    button.textContent = "Select and copy";
    announce("The browser does not allow copying; select the text and copy it");
  }
  setTimeout(() => (button.textContent = label), 1600);
}

export function download(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** The letters of the group with a number from 0: A, B, ..., Z, AA. */
export function letter(number) {
  const quotient = Math.floor(number / 26);
  return (quotient > 0 ? letter(quotient - 1) : "") + String.fromCharCode(65 + (number % 26));
}

export const colour = (number) => `g${number % 6}`;

/** A predicate as words: birthPlace is "birth place". */
export function spoken(name) {
  return name.replace(/_/g, " ").replace(/(\p{Ll}|\d)(\p{Lu})/gu, (_, before, after) => `${before} ${after.toLowerCase()}`);
}

/** A number with the minus sign U+2212, which screen readers pronounce. */
export const decimal = (value, digits = 2) => value.toFixed(digits).replace("-", "\u2212");

export function percent(probability) {
  if (probability === null || probability === undefined) return "unknown";
  const value = probability * 100;
  return value >= 9.95 ? `${value.toFixed(0)} %` : value >= 0.1 ? `${value.toFixed(1)} %` : "< 0.1 %";
}
